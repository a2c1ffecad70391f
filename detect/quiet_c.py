"""What C code may have in it and be quiet (`detect.quiet`): the names of the library, and what a file is called.

A C compiler takes any function that the library has, declared or not, so all names of the GNU library are known that do
more than compute, read and print. Of a file that is opened it is followed, by the names of variables and without a
reader, that its name is one of the arguments of the program, which nothing writes into.
"""

from __future__ import annotations

import re

from detect.opening_words import names
from detect.quiet_names import MAX_PLACES, closing, last_word, parts, places, unclosed, without_brackets

_LIBRARY = names(
    "accept accept4 acct addmntent addseverity adjtime adjtimex aio_cancel aio_error aio_fsync aio_init"
    " aio_read aio_return aio_suspend aio_write alarm alias arch_prctl argp_help argp_parse argp_usage auto"
    " backtrace backtrace_symbols backtrace_symbols_fd bdflush bind bind_textdomain_codeset bindresvport"
    " bindtextdomain brk bsd_signal cachestat call_once callrpc canonicalize_file_name capget capset catclose"
    " catgets cbc_crypt cfmakeraw chflags chmod chown chroot clang clearenv clnt_broadcast clnt_create"
    " clntraw_create clnttcp_create clntudp_bufcreate clntudp_create clntunix_create clock_adjtime"
    " clock_getcpuclockid clock_getres clock_nanosleep clock_settime clone close_range closedir closefrom"
    " closelog confstr connect copy_file_range creat create_module crypt ctermid cuserid daemon dcgettext"
    " dcngettext decltype delete_module des_setparity dgettext dirfd dl_iterate_phdr dladdr dladdr1 dlclose"
    " dlerror dlinfo dlsym dlvsym dngettext dup dup2 dup3 duplocale ecb_crypt embed encrypt endaliasent endfsent"
    " endgrent endhostent endmntent endnetent endnetgrent endprotoent endpwent endrpcent endservent endsgent"
    " endspent endttyent endusershell endutent endutxent environ epoll_create epoll_create1 epoll_ctl"
    " epoll_pwait epoll_pwait2 epoll_wait error_message_count error_one_per_line error_print_progname"
    " ether_hostton ether_line ether_ntohost eventfd eventfd_read eventfd_write fallocate fanotify_init"
    " fanotify_mark fattach fchflags fchmod fchmodat fchown fchownat fcloseall fcrypt fdatasync fdetach fexecve"
    " fgetgrent fgetpwent fgetsgent fgetspent fgetxattr flistxattr flock fnmatch fork forkpty fpathconf"
    " freeaddrinfo freeifaddrs fremovexattr fsconfig fsetxattr fsmount fspick fstatat fstatfs fstatvfs fsync"
    " ftime ftok ftruncate fts64_children fts64_close fts64_read fts64_set fts_children fts_close fts_read"
    " fts_set futimens futimes futimesat gai_cancel gai_error gai_strerror gai_suspend get_avphys_pages"
    " get_current_dir_name get_kernel_syms get_myaddress get_nprocs get_nprocs_conf get_phys_pages getaddrinfo"
    " getaddrinfo_a getaliasbyname getaliasent getauxval getcontext getcpu getcwd getdate getdate_err getdents"
    " getdents64 getdirentries getdomainname getdtablesize getegid getentropy geteuid getfsent getfsfile"
    " getfsspec getgid getgrent getgrgid getgrnam getgrouplist getgroups gethostbyaddr gethostbyname"
    " gethostbyname2 gethostent gethostid gethostname getifaddrs getipv4sourcefilter getitimer getloadavg"
    " getlogin getmntent getmsg getnameinfo getnetbyaddr getnetbyname getnetent getnetgrent getnetname getpass"
    " getpeername getpgid getpgrp getpmsg getppid getpriority getprotobyname getprotobynumber getprotoent getpt"
    " getpublickey getpw getpwent getpwnam getpwuid getrandom getresgid getresuid getrlimit getrpcbyname"
    " getrpcbynumber getrpcent getrpcport getrusage getsecretkey getservbyname getservbyport getservent getsgent"
    " getsgnam getsid getsockname getsockopt getsourcefilter getspent getspnam gettext gettid getttyent"
    " getttynam getuid getusershell getutent getutid getutline getutmp getutmpx getutxent getutxid getutxline"
    " getwd getxattr getxattrat glob glob_pattern_p globfree gnu grantpt group_member gtty herror host2netname"
    " hstrerror iconv iconv_close ifunc import init_module initgroups innetgr inotify_add_watch inotify_init"
    " inotify_init1 inotify_rm_watch ioctl ioperm iopl iruserok iruserok_af isastream isfdtype kill killpg"
    " klogctl lchmod lchown lckpwdf lgetxattr linkat lio_listio listen listmount listxattr listxattrat"
    " llistxattr llseek lockf login login_tty logout logwtmp longjmp lremovexattr lsetxattr lutimes madvise"
    " makecontext mallinfo mallinfo2 malloc_info malloc_stats malloc_trim mallopt mallwatch mcheck"
    " mcheck_check_all mcheck_pedantic mcount memfd_create memfd_secret mincore mkdir mkdirat mkdtemp mkfifo"
    " mkfifoat mknod mknodat mkostemp mkostemps mkstemp mkstemps mktemp mlock mlock2 mlockall modify_ldt"
    " moncontrol monstartup mount mount_setattr move_mount mprobe mprotect mq_close mq_getattr mq_notify"
    " mq_receive mq_send mq_setattr mq_timedreceive mq_timedsend mremap msgctl msgget msgrcv msgsnd msync mtrace"
    " munlock munlockall munmap muntrace name_to_handle_at netname2host netname2user newlocale nfsservctl"
    " ngettext nice ntp_adjtime ntp_gettime ntp_gettimex on_exit parse_printf_format passwd2des pathconf pause"
    " pclose personality pidfd_getfd pidfd_getpid pidfd_send_signal pipe pipe2 pivot_root pkey_alloc pkey_free"
    " pkey_get pkey_mprotect pkey_set pmap_getmaps pmap_getport pmap_rmtcall pmap_set pmap_unset poll"
    " posix_fadvise posix_fallocate posix_getdents ppoll pragma prctl pread preadv preadv2 preadv64v2"
    " printf_size printf_size_info prlimit process_madvise process_mrelease process_vm_readv process_vm_writev"
    " profil pselect psiginfo pthread_atfork pthread_create pthread_kill pthread_sigqueue ptrace ptsname putenv"
    " putgrent putmsg putpmsg putpwent putsgent putspent pututline pututxline pwrite pwritev pwritev2"
    " pwritev64v2 query_module quotactl raise rcmd rcmd_af re_comp re_exec readahead readdir readdir64"
    " readlinkat readv realpath reboot recv recvfrom recvmmsg recvmsg register_printf_function"
    " register_printf_modifier register_printf_specifier register_printf_type registerrpc reinterpret_cast"
    " remap_file_pages removexattr removexattrat res_gethostbyaddr res_gethostbyname res_gethostbyname2"
    " res_nquery res_nquerydomain res_nsearch res_nsend res_query res_querydomain res_search res_send revoke"
    " rewinddir rexec rexec_af rexecoptions rmdir rresvport rresvport_af rtime ruserok ruserok_af ruserpass sbrk"
    " sched_get_priority_max sched_get_priority_min sched_getaffinity sched_getcpu sched_getparam"
    " sched_getscheduler sched_rr_get_interval sched_setaffinity sched_setattr sched_setparam sched_setscheduler"
    " section seekdir select sem_clockwait sem_close sem_destroy sem_getvalue sem_init sem_post sem_timedwait"
    " sem_trywait sem_wait semctl semget semop semtimedop send sendfile sendmmsg sendmsg sendto setaliasent"
    " setcontext setdomainname setegid setenv seteuid setfsent setfsgid setfsuid setgid setgrent setgroups"
    " sethostent sethostid sethostname setipv4sourcefilter setitimer setjmp setkey setlogin setlogmask setmntent"
    " setnetent setnetgrent setns setpgid setpgrp setpriority setprotoent setpwent setregid setresgid setresuid"
    " setreuid setrlimit setrpcent setservent setsgent setsid setsockopt setsourcefilter setspent settimeofday"
    " setttyent setuid setusershell setutent setutxent setxattr setxattrat sgetsgent sgetspent shmat shmctl"
    " shmdt shmget shutdown sigaction sigaltstack siglongjmp signalfd sigqueue sigreturn sigvec sockatmark"
    " socket socketpair splice sprofil ssignal sstk statfs statmount statvfs statx strerrordesc_np"
    " strerrorname_np stty svc_run svcfd_create svcraw_create svctcp_create svcudp_bufcreate svcudp_create"
    " svcunix_create svcunixfd_create swapcontext swapoff swapon symlinkat sync sync_file_range syncfs sysconf"
    " sysctl sysinfo syslog sysv_signal tcdrain tcflow tcflush tcgetattr tcgetpgrp tcgetsid tcsendbreak"
    " tcsetattr tcsetpgrp tee telldir template tempnam textdomain tgkill thrd_create thrd_current thrd_detach"
    " thrd_equal thrd_exit thrd_join thrd_sleep thrd_yield timer_create timer_delete timer_getoverrun"
    " timer_gettime timer_settime timerfd_create timerfd_gettime timerfd_settime tmpfile tmpnam tr_break"
    " truncate ttyname ttyslot typeof typeof_unqual ualarm ulckpwdf ulimit umask umount umount2 uname unlockpt"
    " unsetenv unshare updwtmp updwtmpx uselib uselocale user2netname ustat utime utimensat utimes utmpname"
    " utmpxname vfork vhangup vlimit vmsplice vsyslog vtimes wait wait3 wait4 waitid waitpid weak weakref"
    " wordexp wordfree writev xcrypt xcrypt_gensalt xdecrypt xdrrec_create xencrypt"
)
DENIED = frozenset(name + suffix for name in _LIBRARY for suffix in (b"", b"64", b"_r"))
"""Words that no quiet code has: all of the library that could do more, and ways to have a function that is no other."""
_MAX_BEFORE = 400
"""How much stands before a variable in brackets within one statement, at most: each bracket is looked into."""
_READERS = names(
    "atof atoi atol atoll fopen fprintf fputs freopen fstat isalnum isalpha isdigit islower isprint ispunct isspace"
    " isupper lstat open perror printf puts stat strcasecmp strcmp strcspn strlen strncasecmp strncmp strspn strtod"
    " strtof strtoimax strtol strtold strtoll strtoul strtoull strtoumax tolower toupper warn warnx err errx"
)
"""Functions that only read the texts that they are given, and give none of them back that they do not write into."""
_BRANCHES = frozenset([b"if", b"while", b"switch", b"for"])
_STATEMENTS = frozenset([b"else", b"return", b"do", b"case"])
_OPENED = (re.compile(rb"open\s*\(\s*([A-Za-z_]\w*)"), re.compile(rb"stat\s*\(\s*([A-Za-z_]\w*)"))
_MAIN = re.compile(rb"main(?<!\wmain)\s*\(\s*int\s+\w+\s*,\s*char\s*\*\s*(?:\*\s*(\w+)|(\w+)\s*\[\s*\])\s*\)")
_FUNCTION = re.compile(rb"\n[A-Za-z_][\w *]*?(\w+) ?\(([^;{}()]*)\)\s*\{")
_WAY = re.compile(rb"(?:,|, | ,)O_RDONLY\s*\)")
_MACRO = re.compile(rb"#[ \t]*(?:define|undef)\s+(\w+)")
_FIXED = _READERS | names(
    "NULL O_RDONLY case char const do else for getopt getopt_long if int main optarg return static stdin struct"
    " switch void while"
)
"""Words that have to mean what they mean everywhere."""
_PASSED_ON = re.compile(rb"\bgetopt(?:_long(?:_only)?)?\s*\(\s*\w+\s*,\s*\Z")
_POINTERS = re.compile(rb"\*\s*(?:const\s+)?(\w+)\s*\[")
"""Lists of texts, and single letters of them."""
_INDEX = re.compile(rb"((?:\s*\[[^\[\]]*\])*)\s*")
_STORED = re.compile(rb"=(?!=)|(?:[-+*/%&|^]|<<|>>)=|\+\+|--")
_STORED_BEHIND = re.compile(rb"[\s)]*(?:\[|=(?!=)|(?:[-+*/%&|^]|<<|>>)=|\+\+|--)")
_USUAL = (b" strcmp(", b"!strcmp(", b"(strcmp(", b" fopen(", b" perror(")
"""What stands before nearly all variables that are only read."""
_TOUCHED = (b".", b"-", b"->")
"""What stands before a variable that is a field, or that is computed with."""
_COMPARED = re.compile(rb"\?|[=!]=|&&|\|\||[<>](?![<>])")
_DECLARED = re.compile(rb"\bchar\s*(?:const\s*)?\*\s*(?:const\s+)?\Z")
_DECLARED_AFTER = re.compile(rb"\s*(?:static\s+)?(?:const\s+)?char\b[^()]*,\s*\*\s*\Z")
_ASSIGNED = re.compile(rb"(?:^|[\s*(,;])(\w+)\s*(?:\[[^\[\]]*\]\s*)?(?<![=<>!])=(?!=)[^,]*\Z")
_LISTED = re.compile(rb"\bchar\s*(?:const\s*)?\*\s*(?:const\s+)?(\w+)\s*\[\w*\]\s*=\s*\Z")
_PARAMETER = re.compile(rb"\s*(?:const\s+)?char\s*(?:const\s*)?\*\s*(?:const\s+|restrict\s+)?(\w+)\s*\Z")
_BEHIND_NUMBER = re.compile(rb"[^,]*,\s*(?:&?\s*(\w+)\s*,)?")
_END_OF_NUMBER = re.compile(rb"strto\w+\s*\([^;]*,\s*&\Z")
_GIVEN = re.compile(rb"\s*(?:(\w+)\s*(?:\[[^\[\]]*\])?|\"-\")\s*\Z")
_NOTHING = frozenset([b"NULL", b"0", b"optarg"])


def names_are_given(code: bytes) -> bool:
    """Whether files are opened only by names that are arguments of the program, as they are given."""
    code = b"\n%b\n" % code
    found = _MAIN.search(code)
    functions = _FUNCTION.findall(code)
    known = {name: parameters.split(b",") for name, parameters in functions}
    if len(known) != len(functions):
        return False
    macros = frozenset(_MACRO.findall(code))
    if not _FIXED.isdisjoint(macros) or not known.keys().isdisjoint(macros) or not _READERS.isdisjoint(known):
        return False
    if any([_WAY.search(code, start - 2, start + 20) is None for start in places(code, b"O_RDONLY")]):
        return False
    if len([*places(code, b"main")]) > 1:
        return False
    return _Names(code, found, known, macros).are_given()


class _Names:
    """Variables that may be texts the program is given, and those that files are opened by, as they are found."""

    def __init__(
        self, code: bytes, main: re.Match[bytes] | None, functions: dict[bytes, list[bytes]], macros: frozenset[bytes]
    ) -> None:
        self._code = code
        self._main = main
        self._arguments = arguments = b"argv" if main is None else main[1] or main[2]
        self._functions = functions
        self._macros = macros
        self._lists = frozenset(_POINTERS.findall(code))
        self._left = [
            (arguments, True),
            (b"optarg", True),
            *((name, True) for way in _OPENED for name in way.findall(code)),
        ]
        self._seen = 0
        self._opened: dict[bytes, bool] = {}
        """Whether each that was looked at has to be known to be given, or only not to be written into."""

    def are_given(self) -> bool:
        while self._left:
            name, opened = self._left.pop()
            if self._opened.get(name) or (name in self._opened and not opened):
                continue
            self._opened[name] = opened
            for start in places(self._code, name):
                self._seen += 1
                if self._seen > MAX_PLACES or not self._is_harmless(name, start, opened):
                    return False
        return True

    def _is_harmless(self, name: bytes, start: int, opened: bool) -> bool:
        """Whether what is done with a variable at one place leaves its text as it is, or gives it another."""
        code = self._code
        index = _INDEX.match(code, start + len(name))
        assert index is not None
        depth = index[1].count(b"[")
        if depth == (name == self._arguments) and code.endswith(_USUAL, 0, start) and code[index.end()] in b",)":
            return True
        begin = max(code.rfind(b";", 0, start), code.rfind(b"{", 0, start), code.rfind(b"}", 0, start)) + 1
        before = code[begin:start]
        rest = code[index.end() :]
        if name == self._arguments:
            if depth == 0 or self._in_main(start):
                return self._in_main(start) or _PASSED_ON.search(before) is not None
            depth -= 1
        elif name in self._lists and depth:
            depth -= 1
        letters = depth
        bare = before.rstrip()
        declared = bare.endswith((b"*", b"const")) and (
            _DECLARED.search(before[-40:]) is not None or _DECLARED_AFTER.match(before) is not None
        )
        if declared and name == self._arguments:
            return False
        if not declared:
            while bare.endswith(b"*"):
                bare = bare[:-1].rstrip()
                depth += 1
            if bare.endswith(_TOUCHED) or (bare.endswith(b"+") and (depth or not bare.endswith(b"++"))):
                return False
            if bare.endswith(b"&") and not bare.endswith(b"&&"):
                return not opened and _END_OF_NUMBER.search(bare) is not None
            if bare.endswith(b")") and not depth:
                bare = without_brackets(bare)
                if last_word(bare) not in _BRANCHES:
                    return False  # another type is made of it
                before = bare = b""
            word = last_word(bare)
            if word and word not in _STATEMENTS:
                return not opened and word not in self._macros  # a variable of another type
        if rest[:1].isalpha():
            return False
        if (stored := _STORED.match(rest)) is not None:
            if stored[0] == b"++":
                return not declared and not letters and _STORED_BEHIND.match(rest, 2) is None
            if stored[0] != b"=" or (depth and not declared):
                return False
            return not opened or self._is_given(rest[1:], declared)
        if declared:
            return self._is_parameter(before, opened)
        if _COMPARED.match(rest) is not None or bare.endswith((b"!", b"&&", b"||")):
            return True
        if bare.endswith(b",") and unclosed(before) is None and self._listed(begin) is None:
            return not opened  # a variable that is declared with others
        if depth:
            return _STORED_BEHIND.match(rest) is None and (not bare.endswith(b"(") or self._is_read(before))
        return self._flows(before, begin, rest)

    def _in_main(self, start: int) -> bool:
        """Whether the arguments as a whole stand where `main` takes them."""
        return self._main is not None and self._main.start() < start < self._main.end()

    def _is_given(self, text: bytes, declared: bool) -> bool:
        """Whether a value is one of the arguments, or a variable that is to be looked at."""
        text = text.lstrip()
        if text.startswith(b"{"):
            if not declared:
                return False
            return all([self._is_one_given(part) for part in parts(text[1:])])
        return self._is_one_given(parts(text)[0])

    def _is_one_given(self, value: bytes) -> bool:
        for part in re.split(rb"[?:]", value)[1:] if b"?" in value else (value,):
            if (found := _GIVEN.match(part)) is None:
                return False
            if (name := found[1]) is not None and name not in _NOTHING:
                self._left.append((name, True))
        return True

    def _is_parameter(self, before: bytes, opened: bool) -> bool:
        """Whether a variable without a value is no parameter, or is given an argument by each call."""
        opening = unclosed(before)
        if opening is None:
            return True
        ahead, inside = opening
        callee = last_word(ahead)
        if callee not in self._functions:
            return False
        if not opened:
            return True
        position = inside.count(b",")
        calls = [self._called_with(start + len(callee), position) for start in places(self._code, callee)]
        given = [value for value in calls if value is None or b"char" not in value]
        return bool(given) and all([value is not None and self._is_one_given(value) for value in given])

    def _called_with(self, end: int, position: int) -> bytes | None:
        """The argument of a call, or the parameter where it is declared; None where it has none."""
        if self._code[end : end + 2].lstrip()[:1] != b"(":
            return None
        arguments = parts(self._code[self._code.index(b"(", end) + 1 :])
        return arguments[position] if position < len(arguments) else None

    def _flows(self, before: bytes, begin: int, rest: bytes) -> bool:
        """Whether a text goes where it is only read, or into another variable, which is to be looked at."""
        opening = unclosed(before)
        ahead, inside = opening if opening is not None else (b"", before)
        if (assigned := _ASSIGNED.search(inside)) is not None:
            self._left.append((assigned[1], False))
            return True
        if opening is None:
            if (listed := self._listed(begin)) is not None:
                self._left.append((listed, False))
                return True
            return not before.strip() and rest.startswith(b";")
        callee = last_word(ahead)
        if not callee:
            end = closing(rest)
            return (
                end is not None
                and ahead.rstrip().endswith((b"?", b":", b",", b"(", b"="))
                and _STORED_BEHIND.match(rest, end) is None
                and len(before) < _MAX_BEFORE
                and self._flows(ahead, begin, rest[end:])
            )
        if callee.startswith(b"strto") and (behind := _BEHIND_NUMBER.match(rest)) is not None:
            if behind[1] is None:
                return False
            if behind[1] not in _NOTHING:
                self._left.append((behind[1], False))
        if callee in _READERS or callee in _BRANCHES:
            return True
        parameters = self._functions.get(callee, [])
        position = inside.count(b",")
        found = _PARAMETER.match(parameters[position]) if position < len(parameters) else None
        if found is None:
            return False
        self._left.append((found[1], False))
        return True

    def _listed(self, begin: int) -> bytes | None:
        """The list of texts whose items stand behind a place."""
        if self._code[begin - 1 : begin] != b"{":
            return None
        found = _LISTED.search(self._code[max(begin - 80, 0) : begin - 1])
        return None if found is None else found[1]

    def _is_read(self, before: bytes) -> bool:
        """Whether the letter that stands behind a bracket is only looked at."""
        opening = unclosed(before)
        callee = b"" if opening is None else last_word(opening[0])
        return callee in _READERS or callee in _BRANCHES or callee in self._functions
