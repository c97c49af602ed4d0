-- A database of version 1, as `.dump` writes it.
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
INSERT INTO "card" VALUES('ring/one','2026-08-20',70.935407,4.738765,'2026-03-02','2026-04-01',4,0);
INSERT INTO "card" VALUES('ring/three','2026-03-02',NULL,NULL,NULL,NULL,0,0);
INSERT INTO "card" VALUES('ring/two','2026-03-02',0.212,6.4133,'2026-03-02','2026-03-02',1,0);
CREATE TABLE device (id TEXT NOT NULL PRIMARY KEY) STRICT;
INSERT INTO "device" VALUES('51c97eeeaca6');
CREATE TABLE log (
            device TEXT NOT NULL,
            sequence INTEGER NOT NULL,
            at TEXT NOT NULL,
            day TEXT NOT NULL,
            kind TEXT NOT NULL CHECK (kind IN ('review', 'answer', 'flag', 'undo')),
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
            PRIMARY KEY (device, sequence),
            FOREIGN KEY (undone_device, undone_sequence) REFERENCES log DEFERRABLE INITIALLY DEFERRED,
            CHECK ((kind = 'review') = (grade IS NOT NULL)),
            CHECK ((kind = 'answer') = (credit IS NOT NULL)),
            CHECK ((kind = 'undo') = (undone_sequence IS NOT NULL))
        ) STRICT, WITHOUT ROWID;
INSERT INTO "log" VALUES('51c97eeeaca6',1,'2026-03-02T09:00:00.000000Z','2026-03-02','review','ring/one','8349234c',3000,3,NULL,NULL,NULL,NULL,NULL,0,NULL,NULL);
INSERT INTO "log" VALUES('51c97eeeaca6',2,'2026-03-02T09:00:03.000000Z','2026-03-02','review','ring/two','8349234c',3000,1,NULL,NULL,NULL,NULL,NULL,0,NULL,NULL);
INSERT INTO "log" VALUES('51c97eeeaca6',3,'2026-03-02T09:00:06.000000Z','2026-03-02','review','ring/two','8349234c',3000,4,NULL,NULL,NULL,NULL,NULL,0,NULL,NULL);
INSERT INTO "log" VALUES('51c97eeeaca6',4,'2026-03-02T09:00:09.000000Z','2026-03-02','undo','ring/two','8349234c',NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,'51c97eeeaca6',3);
INSERT INTO "log" VALUES('51c97eeeaca6',5,'2026-03-02T09:00:12.000000Z','2026-03-02','answer','ring/bytes','8349234c',3000,NULL,0.0,0.25,'medium','2,400 — “2·S”','ring/three',0,NULL,NULL);
INSERT INTO "log" VALUES('51c97eeeaca6',6,'2026-03-02T09:00:15.000000Z','2026-03-02','answer','ring/bytes','8349234c',3000,NULL,0.5,0.25,'medium','1800',NULL,1,NULL,NULL);
INSERT INTO "log" VALUES('51c97eeeaca6',7,'2026-03-02T09:00:18.000000Z','2026-03-02','flag','ring/bytes','8349234c',NULL,NULL,NULL,NULL,NULL,'it''s unclear; ''two'' are right
?',NULL,0,NULL,NULL);
INSERT INTO "log" VALUES('51c97eeeaca6',8,'2026-03-05T09:00:00.000000Z','2026-03-05','review','ring/one','08ec0413',3000,3,NULL,NULL,NULL,NULL,NULL,0,NULL,NULL);
INSERT INTO "log" VALUES('51c97eeeaca6',9,'2026-03-11T09:00:00.000000Z','2026-03-11','review','ring/one','08ec0413',3000,2,NULL,NULL,NULL,NULL,NULL,0,NULL,NULL);
INSERT INTO "log" VALUES('51c97eeeaca6',10,'2026-04-01T09:00:00.000000Z','2026-04-01','review','ring/one','08ec0413',3000,3,NULL,NULL,NULL,NULL,NULL,0,NULL,NULL);
CREATE TABLE weights (
            version TEXT NOT NULL PRIMARY KEY,
            since TEXT NOT NULL,
            retention REAL NOT NULL,
            parameters TEXT NOT NULL
        ) STRICT;
INSERT INTO "weights" VALUES('8349234c','',0.9,'[0.212, 1.2931, 2.3065, 8.2956, 6.4133, 0.8334, 3.0194, 0.001, 1.8722, 0.1666, 0.796, 1.4835, 0.0614, 0.2629, 1.6483, 0.6014, 1.8729, 0.5425, 0.0912, 0.0658, 0.1542]');
INSERT INTO "weights" VALUES('08ec0413','2026-03-03T09:00:00.000000Z',0.85,'[0.212, 1.2931, 2.3065, 8.2956, 6.4133, 0.8334, 3.0194, 0.001, 1.8722, 0.1666, 0.796, 1.4835, 0.0614, 0.2629, 1.6483, 0.6014, 1.8729, 0.5425, 0.0912, 0.0658, 0.1542]');
CREATE INDEX log_item ON log (item);
CREATE INDEX log_calls ON log (calls) WHERE calls IS NOT NULL;
CREATE INDEX log_undone ON log (undone_device, undone_sequence) WHERE undone_sequence IS NOT NULL;
CREATE TRIGGER log_is_kept BEFORE DELETE ON log BEGIN SELECT raise(ABORT, 'the log is append-only'); END;
CREATE TRIGGER log_is_fixed BEFORE UPDATE ON log BEGIN SELECT raise(ABORT, 'the log is append-only'); END;
CREATE INDEX card_due ON card (due);
COMMIT;
PRAGMA application_id = 1684303985;
PRAGMA user_version = 1;
