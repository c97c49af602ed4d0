"""Starts of ddpquiz that are forks of a process which has imported everything, so that a test need not wait for that.

Each worker of pytest has a template of `python -m ddpquiz`, and one of sample_program.py. `install` makes
`subprocess.Popen` and `pexpect.spawn` fork from it where they would start one of the two in the way in which nearly all
tests do; every other command is started as always. The process of the program is a child of the worker, as if it had
been started. The program's server of ranks is forked as well, since the template has imported torch.

`real_starts` makes every start a real one. test_starts.py starts each command for real, and compares.
"""

import atexit
import contextlib
import fcntl
import gc
import importlib
import io
import json
import os
import pkgutil
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import termios
import threading
import time
import types
import weakref
from pathlib import Path

SAMPLE = str(Path(__file__).with_name("sample_program.py"))
# Variables that Python, libraries of C and imports read, so that a fork would not notice another value
_EARLY = (
    *("PYTHON", "LANG", "LC_", "LD_", "GLIBC", "MALLOC", "OMP_", "MKL_", "OPENBLAS", "NUMPY", "NPY_", "TQDM", "TYPER"),
    *("TORCH", "PYTORCH", "GLOO", "KINETO"),
)
_START = subprocess.Popen._execute_child
_LARGEST = 1 << 20  # bytes of a request
# The entry itself, other entries, and what imports torch or belongs in ranks
NOT_YET = re.compile(r"ddpquiz\.(__main__|record|bench|ranks\.inside.*|ranks\.elastic_agent)")


# In the worker


class Template:
    """A process from which a program is forked."""

    def __init__(self, program):
        from ddpquiz.ranks.forks import adopt_orphans

        adopt_orphans()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for each in (ours, theirs):
            each.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _LARGEST)
        self.socket, self.environment, self.lock = ours, early(_at_first), threading.Lock()
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        self.process = subprocess.Popen(
            [sys.executable, __file__, program, str(theirs.fileno())],
            pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, env=_at_first | threads,
        )  # fmt: skip
        theirs.close()

    def fork(self, words, cwd, environment, fds, *, session=False, terminal=False):
        """Start the program with these descriptors as 0, 1 and 2, and return the id of its process."""
        os.umask(mask := os.umask(0o077))
        request = {
            "words": words, "cwd": str(Path(cwd or ".").absolute()), "environment": environment, "umask": mask,
            "session": session, "terminal": terminal,
        }  # fmt: skip
        with self.lock:
            socket.send_fds(self.socket, [json.dumps(request).encode(errors="surrogateescape")], fds)
            answer = self.socket.recv(_LARGEST)
        if not answer:
            raise BrokenPipeError("the template has ended")
        return int(answer)

    def close(self):
        self.socket.close()
        self.process.wait()


_templates = {}
_at_first = {}  # the environment, before a test has changed it
_real = []  # a context that wants real starts


@contextlib.contextmanager
def real_starts():
    """Make every start in this context a real one."""
    _real.append(True)
    try:
        yield
    finally:
        _real.pop()


def early(environment):
    """The variables that a fork would not notice; an empty one counts as missing."""
    return {name: value for name, value in environment.items() if value and name.startswith(_EARLY)}


def _program(args, cwd, environment):
    """The template and the words for a command line, or None if it must be started for real."""
    args = list(map(os.fsdecode, args)) if isinstance(args, (list, tuple)) else []
    if _real or args[:1] != [sys.executable] or not Path(cwd or ".").is_dir():
        return None
    if args[1:3] == ["-m", "ddpquiz"]:
        program, words = "ddpquiz", args[3:]
    elif args[1:2] == [SAMPLE] and "--real" not in args:
        program, words = "sample", args[2:]
    else:
        return None
    if program not in _templates or _templates[program].process.poll() is not None:
        _templates[program] = Template(program)
    template = _templates[program]
    return (template, words) if template.environment == early(environment) else None


class Popen(subprocess.Popen):
    """Forks a program from its template where there is one."""

    def _execute_child(
        self, args, executable, preexec_fn, close_fds, pass_fds, cwd, env, startupinfo, creationflags, shell,
        p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite, *more,
    ):  # fmt: skip
        *_, start_new_session, process_group = more
        plain = not (shell or executable or preexec_fn or pass_fds) and process_group in (None, -1)
        environment = dict(os.environ if env is None else env)
        found = _program(args, cwd, environment) if plain else None
        if not found:
            return _START(
                self, args, executable, preexec_fn, close_fds, pass_fds, cwd, env, startupinfo, creationflags, shell,
                p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite, *more,
            )  # fmt: skip
        template, words = found
        fds = [given if given != -1 else own for given, own in ((p2cread, 0), (c2pwrite, 1), (errwrite, 2))]
        environment = {os.fsdecode(name): os.fsdecode(value) for name, value in environment.items()}
        self.pid = template.fork(words, cwd and os.fsdecode(cwd), environment, fds, session=start_new_session)
        self._child_created = True
        self._close_pipe_fds(p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)
        return None


def _spawn(cls, argv, cwd=None, env=None, echo=True, preexec_fn=None, dimensions=(24, 80), pass_fds=()):
    """Start a program on a pseudo-terminal, as ptyprocess does; it is forked from its template where there is one."""
    environment = dict(os.environ if env is None else env)
    found = _program(argv, cwd, environment) if echo and not preexec_fn and not pass_fds else None
    if not found:
        return cls.spawn_for_real(argv, cwd, env, echo, preexec_fn, dimensions, pass_fds)
    template, words = found
    master, slave = os.openpty()
    termios.tcsetwinsize(slave, dimensions)
    pid = template.fork(words, cwd, environment, [slave] * 3, session=True, terminal=True)
    os.close(slave)
    made = cls(pid, master)
    made.argv, made.env, made.launch_dir = argv, env, cwd
    return made


def install():
    """Let tests fork programs from here on."""
    import ptyprocess

    if sys.platform != "linux":
        return  # elsewhere a process cannot become the parent of its grandchildren
    _at_first.update(os.environ)
    subprocess.Popen = Popen
    ptyprocess.PtyProcess.spawn_for_real = ptyprocess.PtyProcess.spawn
    ptyprocess.PtyProcess.spawn = classmethod(_spawn)


def close():
    for template in _templates.values():
        template.close()
    _templates.clear()


# In the template


def serve(channel):
    """Fork a program for each request; return the request in the program, and None when the worker is gone."""
    while True:
        data, fds, _, _ = socket.recv_fds(channel, _LARGEST, 3)
        if not data:
            return None
        request, reading = json.loads(data.decode(errors="surrogateescape")), os.pipe()
        middle = os.fork()
        if middle == 0:
            pid = os.fork()
            if pid == 0:
                channel.close()
                for end in reading:
                    os.close(end)
                return request, fds
            os.write(reading[1], str(pid).encode())
            os._exit(0)
        for fd in (*fds, reading[1]):
            os.close(fd)
        os.waitpid(middle, 0)  # now the worker is the parent of the program
        channel.send(os.read(reading[0], 20))
        os.close(reading[0])


def become(environment, cwd, fds, *, umask=None, session=False, terminal=False):
    """Give a fork what a new process has: descriptors, environment, folder, signals, streams and chance."""
    if umask is not None:
        os.umask(umask)
    if session:
        os.setsid()
    if terminal:
        fcntl.ioctl(fds[0], termios.TIOCSCTTY, 0)
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)
    signal.set_wakeup_fd(-1)
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    copies = [fcntl.fcntl(fd, fcntl.F_DUPFD, 10) for fd in fds]
    for fd in {*fds} - {0, 1, 2}:
        os.close(fd)
    for number, fd in enumerate(copies):
        os.dup2(fd, number)
        os.close(fd)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    os.chdir(cwd)
    random.seed()
    tempfile.tempdir = None
    sys.excepthook = sys.__excepthook__
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        made, unbuffered = getattr(sys, f"__{name}__"), number > 0 and bool(environment.get("PYTHONUNBUFFERED"))
        buffer = open(number, "wb" if number else "rb", 0 if unbuffered else -1, closefd=False)  # noqa: SIM115
        (buffer if unbuffered else buffer.raw).name = f"<{name}>"
        stream = io.TextIOWrapper(
            buffer, made.encoding, made.errors, "\n",
            line_buffering=not unbuffered and (number == 2 or buffer.isatty()), write_through=unbuffered,
        )  # fmt: skip
        stream.mode = "w" if number else "r"
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


class Endings:
    """What the program, unlike its template, wants to be called when it ends; its server must not call that."""

    def __init__(self):
        self.present = {*weakref.finalize._registry}
        self.added, self.register = [], atexit.register
        atexit.register = self.add

    def add(self, function, *args, **more):
        self.added.append(function)
        return self.register(function, *args, **more)

    def forget(self):
        for function in self.added:
            atexit.unregister(function)
        for finalizer in {*weakref.finalize._registry} - self.present:
            finalizer.detach()
        atexit.register = self.register


class ServerFork(subprocess.Popen):
    """In the program: forks the server of ranks instead of starting it."""

    endings: Endings

    def _execute_child(
        self, args, executable, preexec_fn, close_fds, pass_fds, cwd, env, startupinfo, creationflags, shell,
        p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite, *more,
    ):  # fmt: skip
        from ddpquiz.ranks import server_process

        if list(args[1:3]) != ["-c", server_process.START]:
            return _START(
                self, args, executable, preexec_fn, close_fds, pass_fds, cwd, env, startupinfo, creationflags, shell,
                p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite, *more,
            )  # fmt: skip
        gc.collect()  # what is garbage here must not close descriptors in ranks
        self.pid = os.fork()
        if self.pid == 0:
            subprocess.Popen = subprocess.Popen.__base__
            self.endings.forget()
            fds = [max(p2cread, 0), c2pwrite, errwrite]  # -1: our own standard input
            finish(lambda: self._serve(args, pass_fds, env, fds))
        self._child_created = True
        self._close_pipe_fds(p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)
        return None

    @staticmethod
    def _serve(args, pass_fds, environment, fds):
        become(environment, ".", fds, session=True)
        spared = {0, 1, 2, *pass_fds}
        for fd in {int(path.name) for path in Path("/proc/self/fd").iterdir()} - spared:
            with contextlib.suppress(OSError):  # that of the folder itself
                os.close(fd)
        for fd in pass_fds:
            os.set_inheritable(fd, True)
        gc.set_threshold(700, 10, 10)
        sys.argv = ["-c", *args[3:]]
        sys.path[0] = ""
        started = sys.modules["__main__"] = types.ModuleType("__main__")
        if "__annotations__" in globals():  # as in a new interpreter; not in all versions of Python
            started.__annotations__ = {}
        exec(args[2], vars(started))


def finish(work):
    """Run a program and end this process as the interpreter would, but without taking torch apart."""
    status = 0
    try:
        work()
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        if not isinstance(end.code, int | None):
            print(end.code, file=sys.stderr)
    except BaseException as error:  # noqa: BLE001  # as the interpreter prints it
        trace = error.__traceback__
        while trace.tb_next and trace.tb_frame.f_code.co_filename == __file__:
            trace = trace.tb_next
        sys.excepthook(type(error), error, trace)
        status = -signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1
    threading._shutdown()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError) as error:
            status = 120
            with contextlib.suppress(OSError, ValueError):
                print(f"Exception ignored in: {stream!r}\n{type(error).__name__}: {error}", file=sys.stderr, flush=True)
    if status == -signal.SIGINT:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    os._exit(status & 255)


def prepare(program):
    """Import what the program imports, and return its entry."""
    sys.path[0] = str(Path(__file__).parent)
    if program == "sample":
        sys.argv = [SAMPLE]
        import sample_program  # noqa: F401  # puts its content and its actions in the place of the real ones
    import ddpquiz
    from ddpquiz.cli import app

    for name in app._COMMANDS:
        app._load(name)
    for module in pkgutil.walk_packages(ddpquiz.__path__, "ddpquiz."):
        if not NOT_YET.fullmatch(module.name):
            importlib.import_module(module.name)
    if program == "ddpquiz":
        import torch.distributed  # noqa: F401

        import ddpquiz.ranks.inside.kernels
        import ddpquiz.ranks.inside.worker
        import ddpquiz.ranks.server
    gc.collect()
    gc.freeze()
    return app


def main():
    program, channel = sys.argv[1], socket.socket(fileno=int(sys.argv[2]))
    app = prepare(program)
    found = serve(channel)
    if found is None:
        os._exit(0)
    request, fds = found
    words = request.pop("words")

    def work():
        become(fds=fds, **request)
        subprocess.Popen, ServerFork.endings = ServerFork, Endings()
        if program == "sample":
            sys.argv = [SAMPLE, *words]
            app.main()
        else:
            import runpy

            sys.path[0] = os.getcwd()  # noqa: PTH109
            sys.argv = ["-m", *words]
            runpy.run_module("ddpquiz", run_name="__main__", alter_sys=True)

    finish(work)


if __name__ == "__main__":
    main()
