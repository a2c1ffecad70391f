"""Words of each language by which code gets at files, programs, other code or the network, and names that do not."""

from __future__ import annotations


def names(*texts: str) -> frozenset[bytes]:
    """The names in some texts, between blanks."""
    return frozenset(word for text in texts for word in text.encode().split())


_C_LINKED = """
    asm __asm __asm__ _asm embed import syscall dlsym dlvsym
    weakref __weakref__ ifunc __ifunc__ section __section__ redefine_extname include_next __has_include
    __has_include_next __builtin_execl __builtin_execle __builtin_execlp __builtin_execv __builtin_execve
    __builtin_execvp __builtin_fork __libc_system __libc_fork _DYNAMIC _GLOBAL_OFFSET_TABLE_ _r_debug dladdr dladdr1
    dlinfo dl_iterate_phdr mprotect __mprotect pkey_mprotect mremap remap_file_pages memfd_create modify_ldt
"""
_C_FILES = """
    access faccessat eaccess euidaccess chdir fchdir link symlink readlink unlink unlinkat rename renameat renameat2
    scandir scandir64 scandirat scandirat64 ftw ftw64 nftw nftw64 mmap mmap64 fstream ifstream ofstream wfstream
    wifstream wofstream basic_fstream basic_ifstream basic_ofstream filebuf wfilebuf basic_filebuf stdio_filebuf
    filesystem
    creat creat64 mknod mknodat __xmknod __xmknodat mkfifo mkfifoat mkdir mkdirat rmdir truncate truncate64 chmod lchmod
    fchmodat chown lchown fchownat utime utimes lutimes futimesat utimensat linkat symlinkat readlinkat __readlink_chk
    __readlinkat_chk __xstat __xstat64 __lxstat __lxstat64 __fxstatat __fxstatat64 setxattr lsetxattr getxattr lgetxattr
    listxattr llistxattr removexattr lremovexattr acct swapon swapoff mount umount umount2 move_mount mount_setattr
    fsmount fsconfig fspick pivot_root chroot quotactl uselib nfsservctl fattach revoke mkstemp mkstemp64 mkostemp
    mkostemp64 mkstemps mkstemps64 mkostemps mkostemps64 mkdtemp mktemp __mktemp tempnam setmntent __setmntent addmntent
    getmntent getmntent_r utmpname utmpxname updwtmp updwtmpx getdate getdate_r realpath __realpath_chk
    canonicalize_file_name pathconf inotify_add_watch fanotify_mark name_to_handle_at remove glob glob64 wordexp
    bindtextdomain profil sprofil monstartup moncontrol mtrace sysctl __sysctl bdflush init_module delete_module
    create_module query_module shm_unlink mq_unlink sem_unlink shmget shmat msgget semget
"""
_C_PROGRAMS = """
    system execl execle execlp execv execve execvp execvpe execveat fexecve posix_spawn posix_spawnp
    vfork __vfork clone clone3 __clone forkpty login_tty rexec rexec_af rcmd rcmd_af ruserok iruserok ruserpass ptrace
    process_vm_readv process_vm_writev process_madvise pidfd_getfd setns unshare personality arch_prctl
    _IO_file_attach _IO_proc_close
"""
_C_NETWORK = """
    socket __socket connect __connect bind listen accept accept4 sendto sendmsg sendmmsg __sendmmsg getaddrinfo
    getaddrinfo_a getnameinfo gethostbyname gethostbyname2 gethostbyname_r gethostbyname2_r gethostbyaddr
    gethostbyaddr_r res_query res_search res_send res_querydomain res_nquery res_nsearch res_nsend clnt_create
    clnttcp_create clntudp_create clntunix_create callrpc registerrpc rtime getrpcport syslog vsyslog
"""

REACHING: dict[str, frozenset[bytes]] = {
    "c": names(_C_LINKED, _C_FILES, _C_PROGRAMS, _C_NETWORK),
    "go": frozenset(),
    "rust": names(
        """
        OpenOptions Command unsafe extern libc net os macro_rules proc_macro current_dir set_current_dir
        temp_dir current_exe home_dir split_paths join_paths read_dir asm global_asm naked_asm link_section no_mangle
        export_name link_name linkage
        """
    ),
    "java": names(
        """
        RandomAccessFile Runtime forName invoke URL URI getClass Class Formatter ServiceLoader
        ResourceBundle ClassLoader Socket ServerSocket DatagramSocket SSLSocket InetAddress ObjectInputStream native
        getResource getResourceAsStream getResources getSystemResource getSystemResourceAsStream getSystemResources
        getClassLoader getSystemClassLoader getPlatformClassLoader getContextClassLoader getDeclaringClass getModule
        getProtectionDomain getMethod getMethods getDeclaredMethod getDeclaredMethods getConstructor getConstructors
        getDeclaredConstructor getDeclaredConstructors newInstance getField getDeclaredField Compiler Module ModuleLayer
        StackWalker MethodHandles Lookup Unsafe
        """
    ),
    "python": names(
        # what looks up names, and what is run or read by name
        """
        execfile getattr setattr delattr globals locals vars modules mro breakpoint breakpointhook
        attrgetter methodcaller Formatter get_field _get_kwargs update_wrapper make_dataclass singledispatch
        singledispatchmethod get_type_hints evaluate_forward_ref ForwardRef _evaluate _eval_type _create_fn
        _FuncBuilder _convert_ _old_convert_ _create_ global_enum _simple_enum _test_simple_enum _reconstruct
        dispatch_table _deepcopy_dispatch _stream _old_targets _current_frames _current_exceptions monitoring settrace
        setprofile addaudithook remote_exec
        """,
        # code and variables of what runs
        """
        f_back f_builtins f_code f_globals f_locals f_generator gi_code gi_frame gi_yieldfrom cr_code cr_frame cr_await
        ag_code ag_frame ag_await tb_frame tb_next _getframe currentframe co_code co_consts co_names co_varnames
        co_freevars co_cellvars co_filename co_name co_flags co_nlocals co_stacksize co_linetable co_firstlineno
        co_exceptiontable co_argcount co_qualname
        """,
        # modules that are attributes of others, and what is in them
        """
        _os io _io builtins bltns inspect types warnings _warn linecache copyreg importlib _thread _sre _string
        FunctionType LambdaType CodeType ModuleType
        """,
        # files and folders that are read without being opened
        """
        FileType fromfile_prefix_chars _read_args_from_files license credits copyright detach chdir meta_path path_hooks
        path_importer_cache loader find_spec get_data
        """,
    ),
}
REACHING["cpp"] = REACHING["c"]
"""Words of which code needs one to get at something, or one of the signs in `detect.opening`."""

C_KNOWN = names(
    # the language, and types that values are made into
    """
    if for while switch return sizeof do else case defined main alignof typeof _Alignof _Static_assert static_assert int
    char long short unsigned signed float double void bool size_t ssize_t off_t wchar_t wint_t uint8_t uint16_t uint32_t
    uint64_t uintmax_t uintptr_t int8_t int16_t int32_t int64_t intmax_t intptr_t time_t define elif catch throw and or
    not decltype noexcept explicit operator __attribute__ offsetof va_start va_end va_arg va_copy assert UINT64_C
    INT64_C static_cast reinterpret_cast const_cast dynamic_cast __builtin_expect __builtin_popcount
    __builtin_unreachable
    """,
    # streams
    """
    printf fprintf sprintf snprintf vprintf vfprintf vsnprintf asprintf vasprintf dprintf puts fputs putchar putc fputc
    getchar getc fgetc ungetc fgets getline getdelim fread fwrite fflush fclose feof ferror clearerr setvbuf setbuf
    perror scanf fscanf sscanf fseek fseeko ftell ftello rewind fileno getchar_unlocked getc_unlocked putchar_unlocked
    putc_unlocked fread_unlocked fwrite_unlocked fputs_unlocked setlinebuf fwide fgetwc getwchar getwc fputwc putwchar
    putwc fgetws ungetwc wprintf fwprintf swprintf read write isatty lseek close error warn warnx err errx
    """,
    # texts and memory
    """
    strlen strnlen strcmp strncmp strcasecmp strncasecmp strcpy strncpy strcat strncat strchr strrchr strstr strspn
    strcspn strpbrk strtok strtok_r strsep strdup strndup strerror strcoll strxfrm stpcpy stpncpy strchrnul strcasestr
    memcpy memmove memset memcmp memchr memrchr memmem mempcpy rawmemchr bcmp bzero malloc calloc realloc reallocarray
    free alloca atoi atol atoll atof strtol strtoul strtoll strtoull strtod strtof strtold strtoimax strtoumax isalpha
    isdigit isalnum isspace isupper islower ispunct isprint iscntrl isgraph isxdigit isblank isascii toupper tolower
    toascii mbstowcs wcstombs mbrtowc wcrtomb mbtowc wctomb mbrlen mblen mbsinit btowc wctob wcwidth wcswidth wcslen
    wcscmp wcschr wcscpy iswspace iswalpha iswalnum iswupper iswlower iswprint iswdigit iswpunct towupper towlower qsort
    bsearch regcomp regexec regfree regerror fnmatch basename dirname
    """,
    # C++
    """
    string vector pair make_pair min max swap sort stable_sort reverse find count unique copy fill move get transform
    min_element max_element accumulate lower_bound upper_bound stoi stol stoll stoul stoull stod stold to_string setw
    setprecision setfill copysign lexicographical_compare regex_match regex_search regex_replace
    """,
    # numbers, time, the process
    """
    abs labs llabs div ldiv floor ceil round trunc sqrt cbrt pow exp log log2 log10 log1p expm1 sin cos tan asin acos
    atan atan2 sinh cosh tanh hypot fmod fmodl fabs fabsl fmin fmax floorl ceill roundl truncl powl isnan isinf isfinite
    signbit ldexp frexp modf lround llround lrint nan rand srand random srandom drand48 srand48 time clock clock_gettime
    gmtime gmtime_r localtime localtime_r mktime timegm difftime asctime ctime strftime strptime nanosleep sleep usleep
    exit _exit _Exit abort atexit getenv setlocale getopt getopt_long getpid signal sigaction sigemptyset alarm raise
    setjmp longjmp setenv unsetenv tzset sysconf ioctl getuid geteuid getgid getegid
    """,
)
"""What C code may call without getting at anything but its own data, its input and its output."""

GO_IMPORTS = (
    "bufio|bytes|cmp|container/(?:heap|list|ring)|context|crypto/(?:md5|sha1|sha256|sha512)|encoding/(?:base32|base64"
    "|binary|csv|hex|json)|errors|flag|fmt|hash(?:/\\w+)?|io|iter|log|maps|math(?:/\\w+)?|os|path|regexp|slices|sort"
    "|strconv|strings|sync(?:/atomic)?|text/(?:tabwriter|scanner)|time|unicode(?:/utf8|/utf16)?"
)
GO_KNOWN = names(
    """
    append cap clear close complex copy delete imag len make max min new panic print println real recover string int
    int8 int16 int32 int64 uint uint8 uint16 uint32 uint64 uintptr byte rune float32 float64 complex64 complex128 bool
    error any if for switch return func import var const type case go defer range struct interface map chan else main
    """
)

RUST_KNOWN = names(
    """
    std core alloc self super crate io env process fmt str char mem cmp iter collections vec string ops hash rc cell
    borrow num convert time thread sync ptr slice array option result any error ascii default marker prelude i8 i16 i32
    i64 i128 isize u8 u16 u32 u64 u128 usize f32 f64 bool mpsc btree_map hash_map hash_set btree_set vec_deque
    """
)

JAVA_KNOWN = names(
    # java.lang
    """
    System String StringBuilder StringBuffer Math StrictMath Integer Long Short Byte Character Boolean Double Float
    Number Object Iterable Comparable CharSequence Thread Exception RuntimeException Error Throwable
    IllegalArgumentException IllegalStateException NumberFormatException IndexOutOfBoundsException
    ArithmeticException UnsupportedOperationException AssertionError StringIndexOutOfBoundsException Override
    """,
    # java.util, java.io, java.math, java.time
    """
    Arrays Collections List ArrayList LinkedList Map HashMap LinkedHashMap TreeMap Map.Entry Set HashSet LinkedHashSet
    TreeSet Deque ArrayDeque Queue PriorityQueue Iterator Optional OptionalInt Objects Scanner StringJoiner Comparator
    Collectors Stream IntStream LongStream Pattern Matcher BitSet Random Locale Stack Vector NoSuchElementException
    StringTokenizer Function BiFunction Supplier Consumer Predicate BufferedReader InputStreamReader IOException
    BufferedWriter OutputStreamWriter PrintWriter PrintStream BufferedInputStream BufferedOutputStream StringReader
    StringWriter ByteArrayInputStream ByteArrayOutputStream UncheckedIOException EOFException PushbackReader
    PushbackInputStream BigInteger BigDecimal MathContext RoundingMode LocalDate LocalTime LocalDateTime Duration
    Instant ZoneOffset AtomicInteger AtomicLong StandardCharsets
    """,
)

PYTHON_IMPORTS = (
    "sys|re|string|math|collections(?:\\.abc)?|itertools|functools|operator|typing|dataclasses|enum|decimal|fractions"
    "|textwrap|argparse|struct|array|bisect|heapq|copy|abc|unicodedata|datetime|time|random|statistics|contextlib"
    "|__future__|hashlib|binascii|zlib"
)
