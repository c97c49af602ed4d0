-- A database of ddpquiz 0.1, made by that version, as `.dump` writes it.
PRAGMA application_id = 1684303985;
PRAGMA user_version = 2;
BEGIN TRANSACTION;
CREATE TABLE card (
            item TEXT NOT NULL PRIMARY KEY,
            due TEXT NOT NULL,
            stability REAL,
            difficulty REAL,
            first TEXT,
            last TEXT,
            reps INTEGER NOT NULL,
            lapses INTEGER NOT NULL
        ) STRICT, WITHOUT ROWID;
INSERT INTO "card" VALUES('ddp/two','2026-03-02',NULL,NULL,NULL,NULL,0,0);
INSERT INTO "card" VALUES('ring/one','2026-11-22',222.126441,6.74929,'2026-03-02','2026-11-22',6,0);
INSERT INTO "card" VALUES('ring/three','2026-11-22',2.3065,2.118104,'2026-11-22','2026-11-22',1,0);
INSERT INTO "card" VALUES('ring/two','2026-11-22',0.212,6.4133,'2026-11-22','2026-11-22',1,0);
CREATE TABLE device (id TEXT NOT NULL PRIMARY KEY) STRICT;
INSERT INTO "device" VALUES('a9b41f1aa17d');
CREATE TABLE log (
            device TEXT NOT NULL,
            sequence INTEGER NOT NULL,
            at TEXT NOT NULL,
            day TEXT NOT NULL,
            kind TEXT NOT NULL
                CHECK (kind IN ('review', 'answer', 'flag', 'suspend', 'bury', 'explanation', 'undo')),
            item TEXT NOT NULL,
            weights TEXT NOT NULL REFERENCES weights,
            took INTEGER,
            grade INTEGER CHECK (grade BETWEEN 1 AND 4),
            credit REAL CHECK (credit BETWEEN 0 AND 1),
            chance REAL CHECK (chance BETWEEN 0 AND 1),
            level TEXT,
            given TEXT,
            calls TEXT,
            retry INTEGER NOT NULL DEFAULT 0,
            undone_device TEXT,
            undone_sequence INTEGER,
            confidence REAL CHECK (confidence BETWEEN 0 AND 1),
            points TEXT,
            PRIMARY KEY (device, sequence),
            FOREIGN KEY (undone_device, undone_sequence) REFERENCES log DEFERRABLE INITIALLY DEFERRED,
            CHECK ((kind = 'review') = (grade IS NOT NULL)),
            CHECK ((kind IN ('answer', 'explanation')) = (credit IS NOT NULL)),
            CHECK (kind = 'answer' OR confidence IS NULL),
            CHECK ((kind = 'explanation') = (points IS NOT NULL)),
            CHECK ((kind = 'undo') = (undone_sequence IS NOT NULL))
        ) STRICT, WITHOUT ROWID;
INSERT INTO "log" VALUES('a9b41f1aa17d',1,'2026-11-22T13:57:39.609074Z','2026-11-22','review','ring/one','8349234c',36,3,NULL,NULL,NULL,NULL,NULL,0,NULL,NULL,NULL,NULL);
INSERT INTO "log" VALUES('a9b41f1aa17d',2,'2026-11-22T13:57:39.639049Z','2026-11-22','review','ring/two','8349234c',30,1,NULL,NULL,NULL,NULL,NULL,0,NULL,NULL,NULL,NULL);
INSERT INTO "log" VALUES('a9b41f1aa17d',3,'2026-11-22T13:57:39.652045Z','2026-11-22','review','ring/three','8349234c',13,2,NULL,NULL,NULL,NULL,NULL,0,NULL,NULL,NULL,NULL);
INSERT INTO "log" VALUES('a9b41f1aa17d',4,'2026-11-22T13:57:39.672014Z','2026-11-22','undo','ring/three','8349234c',NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,'a9b41f1aa17d',3,NULL,NULL);
INSERT INTO "log" VALUES('a9b41f1aa17d',5,'2026-11-22T13:57:39.691762Z','2026-11-22','review','ring/three','8349234c',20,3,NULL,NULL,NULL,NULL,NULL,0,NULL,NULL,NULL,NULL);
INSERT INTO "log" VALUES('a9b41f1aa17d',6,'2026-11-22T13:57:39.711884Z','2026-11-22','suspend','ring/four','8349234c',NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,NULL,NULL,NULL,NULL);
INSERT INTO "log" VALUES('a9b41f1aa17d',7,'2026-11-22T13:57:39.722920Z','2026-11-22','bury','ddp/one','8349234c',NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,NULL,NULL,NULL,NULL);
INSERT INTO "log" VALUES('a9b41f1aa17d',8,'2026-11-22T13:57:41.779773Z','2026-11-22','answer','ring/phases','8349234c',65,NULL,0.0,7.14285714285714246063e-02,'easy','["barrier"]','ring/one',0,NULL,NULL,NULL,NULL);
INSERT INTO "log" VALUES('a9b41f1aa17d',9,'2026-11-22T13:57:41.862532Z','2026-11-22','answer','ring/steps','8349234c',1,NULL,0.0,0.0,'hard','1 with n=4, s=1200','ring/three',0,NULL,NULL,NULL,NULL);
INSERT INTO "log" VALUES('a9b41f1aa17d',10,'2026-11-22T13:57:44.259095Z','2026-11-22','explanation','ring/why-ring','8349234c',0,NULL,6.66666666666666629659e-01,NULL,NULL,'A bottleneck. Others idle.',NULL,0,NULL,NULL,NULL,'[{"say": "the root''s link is the bottleneck", "matched": true, "overruled": false}, {"say": "the other links idle meanwhile", "matched": true, "overruled": false}, {"say": "each rank sends less than two tensors", "matched": false, "overruled": false}]');
INSERT INTO "log" VALUES('a9b41f1aa17d',11,'2026-03-02T09:00:00.000000Z','2026-03-02','review','ring/one','8349234c',3000,1,NULL,NULL,NULL,NULL,NULL,0,NULL,NULL,NULL,NULL);
INSERT INTO "log" VALUES('a9b41f1aa17d',12,'2026-03-07T09:00:00.000000Z','2026-03-07','review','ring/one','8349234c',3000,2,NULL,NULL,NULL,NULL,NULL,0,NULL,NULL,NULL,NULL);
INSERT INTO "log" VALUES('a9b41f1aa17d',13,'2026-03-12T09:00:00.000000Z','2026-03-12','review','ring/one','8349234c',3000,3,NULL,NULL,NULL,NULL,NULL,0,NULL,NULL,NULL,NULL);
INSERT INTO "log" VALUES('a9b41f1aa17d',14,'2026-03-17T09:00:00.000000Z','2026-03-17','review','ring/one','8349234c',3000,4,NULL,NULL,NULL,NULL,NULL,0,NULL,NULL,NULL,NULL);
INSERT INTO "log" VALUES('a9b41f1aa17d',15,'2026-03-02T09:00:00.000000Z','2026-03-02','answer','ddp/prints','8349234c',3000,NULL,0.0,0.0,'easy','[1.0, 1.5]','ddp/one',0,NULL,NULL,NULL,NULL);
INSERT INTO "log" VALUES('a9b41f1aa17d',16,'2026-03-02T09:00:00.000000Z','2026-03-02','undo','ddp/prints','8349234c',NULL,NULL,NULL,NULL,NULL,NULL,'ddp/one',0,'a9b41f1aa17d',15,NULL,NULL);
INSERT INTO "log" VALUES('a9b41f1aa17d',17,'2026-03-02T09:00:00.000000Z','2026-03-02','answer','ddp/hooks','8349234c',3000,NULL,0.5,1.66666666666666657414e-01,'medium','["x"]','ddp/two',0,NULL,NULL,0.95,NULL);
INSERT INTO "log" VALUES('a9b41f1aa17d',18,'2026-03-02T09:00:00.000000Z','2026-03-02','flag','ring/bytes','8349234c',NULL,NULL,NULL,NULL,NULL,'é',NULL,0,NULL,NULL,NULL,NULL);
INSERT INTO "log" VALUES('a9b41f1aa17d',19,'2026-03-02T09:00:00.000000Z','2026-03-02','flag','ring/two','8349234c',NULL,NULL,NULL,NULL,NULL,'',NULL,0,NULL,NULL,NULL,NULL);
INSERT INTO "log" VALUES('a9b41f1aa17d',20,'2026-03-02T09:00:00.000000Z','2026-03-02','undo','ring/two','8349234c',NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,'a9b41f1aa17d',19,NULL,NULL);
INSERT INTO "log" VALUES('a9b41f1aa17d',21,'2026-03-02T09:00:00.000000Z','2026-03-02','suspend','ring/three','8349234c',NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,NULL,NULL,NULL,NULL);
INSERT INTO "log" VALUES('a9b41f1aa17d',22,'2026-03-02T09:00:00.000000Z','2026-03-02','bury','ring/two','8349234c',NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,NULL,NULL,NULL,NULL);
INSERT INTO "log" VALUES('a9b41f1aa17d',23,'2026-03-02T09:00:00.000000Z','2026-03-02','explanation','ring/why-ring','8349234c',3000,NULL,1.0,NULL,NULL,'x
y',NULL,0,NULL,NULL,NULL,'[{"say": "a", "matched": true, "overruled": false}, {"say": "b", "matched": false, "overruled": true}]');
INSERT INTO "log" VALUES('a9b41f1aa17d',24,'2026-03-02T09:00:00.000000Z','2026-03-02','undo','ring/why-ring','8349234c',NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,'a9b41f1aa17d',23,NULL,NULL);
INSERT INTO "log" VALUES('a9b41f1aa17d',25,'2026-03-02T09:00:00.000000Z','2026-03-02','explanation','ring/why-ring','8349234c',3000,NULL,0.0,NULL,NULL,'x
y',NULL,0,NULL,NULL,NULL,'[{"say": "a", "matched": true, "overruled": true}, {"say": "b", "matched": false, "overruled": false}]');
INSERT INTO "log" VALUES('a9b41f1aa17d',26,'2026-05-01T09:00:00.000000Z','2026-05-01','review','ring/one','08ec0413',3000,3,NULL,NULL,NULL,NULL,NULL,0,NULL,NULL,NULL,NULL);
CREATE TABLE weights (
            version TEXT NOT NULL PRIMARY KEY,
            since TEXT NOT NULL,
            retention REAL NOT NULL,
            parameters TEXT NOT NULL
        ) STRICT;
INSERT INTO "weights" VALUES('8349234c','',0.9,'[0.212, 1.2931, 2.3065, 8.2956, 6.4133, 0.8334, 3.0194, 0.001, 1.8722, 0.1666, 0.796, 1.4835, 0.0614, 0.2629, 1.6483, 0.6014, 1.8729, 0.5425, 0.0912, 0.0658, 0.1542]');
INSERT INTO "weights" VALUES('08ec0413','2026-03-02T09:00:00.000000Z',0.85,'[0.212, 1.2931, 2.3065, 8.2956, 6.4133, 0.8334, 3.0194, 0.001, 1.8722, 0.1666, 0.796, 1.4835, 0.0614, 0.2629, 1.6483, 0.6014, 1.8729, 0.5425, 0.0912, 0.0658, 0.1542]');
CREATE INDEX card_due ON card (due);
CREATE INDEX log_kind ON log (kind, at);
CREATE INDEX log_item ON log (item);
CREATE INDEX log_calls ON log (calls) WHERE calls IS NOT NULL;
CREATE INDEX log_undone ON log (undone_device, undone_sequence) WHERE undone_sequence IS NOT NULL;
CREATE TRIGGER log_is_kept BEFORE DELETE ON log BEGIN SELECT raise(ABORT, 'the log is append-only'); END;
CREATE TRIGGER log_is_fixed BEFORE UPDATE ON log BEGIN SELECT raise(ABORT, 'the log is append-only'); END;
COMMIT;
