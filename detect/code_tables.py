"""What the reader of Go, Rust, Java and JavaScript knows about these languages: node types, queries, function names.

Functions are named with what they were imported from: `os/exec.Command`, `std.process.Command.new`,
`java.lang.ProcessBuilder`, `child_process.execSync`.
"""

from __future__ import annotations

import re

KINDS: dict[str, dict[str, str]] = {
    "go": {
        "import_spec": "import",
        "call_expression": "call",
        "type_conversion_expression": "call",
        "interpreted_string_literal": "string",
        "raw_string_literal": "string",
        "binary_expression": "binary",
        "expression_case": "label",
        "keyed_element": "key",
        "short_var_declaration": "bind",
        "assignment_statement": "bind",
        "var_spec": "bind",
        "const_spec": "bind",
        "composite_literal": "list",
    },
    "rust": {
        "use_declaration": "import",
        "call_expression": "call",
        "macro_invocation": "macro",
        "string_literal": "string",
        "raw_string_literal": "string",
        "binary_expression": "binary",
        "match_pattern": "pattern",
        "let_declaration": "bind",
        "const_item": "bind",
        "static_item": "bind",
        "assignment_expression": "bind",
        "compound_assignment_expr": "bind",
        "array_expression": "list",
    },
    "java": {
        "import_declaration": "import",
        "method_invocation": "call",
        "object_creation_expression": "call",
        "string_literal": "string",
        "binary_expression": "binary",
        "switch_label": "pattern",
        "variable_declarator": "bind",
        "assignment_expression": "bind",
        "array_initializer": "list",
    },
    "javascript": {
        "import_statement": "import",
        "call_expression": "call",
        "new_expression": "call",
        "string": "string",
        "template_string": "string",
        "binary_expression": "binary",
        "switch_case": "label",
        "pair": "key",
        "variable_declarator": "bind",
        "assignment_expression": "bind",
        "augmented_assignment_expression": "bind",
        "array": "list",
    },
}
"""What the reader looks at, and what it takes each kind of node for."""
STRINGS = frozenset(
    ["interpreted_string_literal", "raw_string_literal", "string_literal", "string", "template_string", "text_block"]
)
CHARACTERS = frozenset(["rune_literal", "char_literal", "character_literal"])
NUMBERS = frozenset(
    [
        "int_literal",
        "integer_literal",
        "number",
        "decimal_integer_literal",
        "hex_integer_literal",
        "octal_integer_literal",
    ]
)
IDENTIFIERS = frozenset(
    ["identifier", "type_identifier", "field_identifier", "package_identifier", "property_identifier", "import", "self"]
)
_LEAVES = IDENTIFIERS | {
    *("comment", "line_comment", "block_comment", "primitive_type", "integral_type", "void_type", "escape_sequence"),
    *("string_content", "string_fragment", "interpreted_string_literal_content", "nil", "null", "true", "false"),
    *("int_literal", "integer_literal", "number", "decimal_integer_literal", "boolean_literal", "this"),
}
"""Nodes in which there is nothing to look at."""
ROLES = {language: (*((kind, "leaf") for kind in sorted(_LEAVES)), *kinds.items()) for language, kinds in KINDS.items()}
MEMBERS = {
    "selector_expression": ("operand", "field"),
    "field_expression": ("value", "field"),
    "field_access": ("object", "field"),
    "member_expression": ("object", "property"),
    "qualified_type": ("package", "name"),
}
LISTS = frozenset(["array", "array_expression", "array_initializer", "literal_value"])
INNER = {
    "parenthesized_expression": "",
    "unary_expression": "operand",
    "reference_expression": "value",
    "cast_expression": "value",
    "type_cast_expression": "value",
    "type_conversion_expression": "operand",
    "array_creation_expression": "value",
    "composite_literal": "body",
    "literal_element": "",
    "await_expression": "",
    "try_expression": "",
    "spread_element": "",
    "variadic_argument": "",
    "block": "",
    "expression_statement": "",
}
"""Expressions that are worth what stands in them, and the field it stands in (else the last child)."""
CALLS = frozenset(["call_expression", "method_invocation", "object_creation_expression", "new_expression"])
FOLDED = (
    *((kind, "inner") for kind in INNER),
    *((kind, "name") for kind in sorted(IDENTIFIERS)),
    *((kind, "member") for kind in MEMBERS),
    *((kind, "literal") for kind in sorted(STRINGS | CHARACTERS)),
    *((kind, "number") for kind in sorted(NUMBERS)),
    *((kind, "list") for kind in sorted(LISTS)),
    *((kind, "call") for kind in sorted(CALLS)),
    ("template_string", "template"),
    ("scoped_identifier", "scoped"),
    ("scoped_type_identifier", "scoped type"),
    ("binary_expression", "binary"),
    ("macro_invocation", "macro"),
    ("subscript_expression", "subscript"),
    ("generic_function", "generic"),
    ("generic_type", "generic"),
)
"""What each kind of expression is to those who work out names and values."""

# --- names ---------------------------------------------------------------------------------------------------------

JAVA_CLASSES = {
    "Runtime": "java.lang.Runtime",
    "ProcessBuilder": "java.lang.ProcessBuilder",
    **{n: f"java.net.{n}" for n in ("Socket", "URL", "URI", "HttpURLConnection", "DatagramSocket", "InetAddress")},
    **{n: f"java.net.http.{n}" for n in ("HttpClient", "HttpRequest")},
    **{n: f"java.nio.file.{n}" for n in ("Files", "Paths", "Path")},
    **{n: f"java.io.{n}" for n in ("File", "FileReader", "FileInputStream", "FileWriter", "FileOutputStream")},
    "SocketChannel": "java.nio.channels.SocketChannel",
    "Scanner": "java.util.Scanner",
    "Base64": "java.util.Base64",
    "List": "java.util.List",
    "Arrays": "java.util.Arrays",
}
RUST_TYPES = {
    "Command": "std.process.Command",
    "TcpStream": "std.net.TcpStream",
    "UdpSocket": "std.net.UdpSocket",
    "File": "std.fs.File",
}
"""What `use std::net::*` brings in."""

SHELL_CALLS = frozenset(
    [
        "child_process.exec",
        "child_process.execSync",
        "java.lang.Runtime.getRuntime().exec",
        "java.lang.Runtime.exec",
        "C.system",
        "C.popen",
        "libc.system",
        "libc.popen",
        "system",
        "Deno.run",
    ]
)
PROGRAM_CALLS = {
    "os/exec.Command": 0,
    "os/exec.CommandContext": 1,
    "syscall.Exec": 0,
    "syscall.ForkExec": 0,
    "golang.org/x/sys/unix.Exec": 0,
    "os.StartProcess": 0,
    "std.process.Command.new": 0,
    "process.Command.new": 0,
    "tokio.process.Command.new": 0,
    "Command.new": 0,
    "java.lang.ProcessBuilder": 0,
    "child_process.spawn": 0,
    "child_process.spawnSync": 0,
    "child_process.execFile": 0,
    "child_process.execFileSync": 0,
    "child_process.fork": 0,
    "Bun.spawn": 0,
    "Bun.spawnSync": 0,
    "Deno.Command": 0,
}
"""Functions that start a program, and the place of its name among the arguments."""
WITHOUT_NAME = frozenset(["syscall.Exec", "syscall.ForkExec", "golang.org/x/sys/unix.Exec", "os.StartProcess"])
"""Those whose argument list repeats the program's name."""
CODE_CALLS = frozenset(
    [
        "eval",
        "Function",
        "vm.runInNewContext",
        "vm.runInThisContext",
        "vm.runInContext",
        "vm.Script",
        "vm.compileFunction",
    ]
)
IMPORT_CALLS = re.compile(
    r"(?:.*\.)?require|(?:.*\.)?_load|import|(?:java\.lang\.)?Class\.forName|.*\.loadClass|process\.(?:binding|getBuiltinModule)"
)
MENTIONING = re.compile(
    r"(?:.*\.)?(?:"
    r"[Ee]?[Pp]rint(?:f|ln|)|Fprint(?:f|ln|)|Error(?:f|)|Fatal(?:f|ln|)|Panic(?:f|ln|)|Log(?:f|)|log|info|warn|error|debug"
    r"|equals(?:IgnoreCase)?|startsWith|endsWith|contains|includes|indexOf|matches|match|test|compare(?:To)?"
    r"|HasPrefix|HasSuffix|Contains|EqualFold|Index|starts_with|ends_with|eq|find|strip_prefix|trim_start_matches"
    r"|Handle(?:Func)?|route|get|put|post|delete|use|createContext|set|write(?:ln|_str)?|WriteString|puts|push_str|assert\w*"
    r"|new Error|MustCompile|compile|usage|help|append"
    r"|println|eprintln|panic|anyhow|bail|[rR]eplace(?:All|n|)|[sS]plit(?:N|n|)|Count|count|len|length|parse|TrimPrefix|TrimSuffix"
    r")"
)
"""Functions whose string arguments are shown, compared or searched for, not opened."""
FILE_WRITES = re.compile(
    r"(?:.*\.)?(?:Write(?:File|String)?|write(?:File|FileSync|String)?|append(?:File|FileSync)|create(?:WriteStream|File|_dir(?:_all)?)?"
    r"|Create|remove(?:_file|_dir|_dir_all)?|Remove(?:All)?|delete(?:IfExists)?|unlink(?:Sync)?|rm(?:Sync)?|rmdir(?:Sync)?"
    r"|Mkdir(?:All)?|mkdir(?:Sync)?|truncate(?:Sync)?|Truncate|Chmod|chmod(?:Sync)?|FileWriter|FileOutputStream|PrintWriter)"
)
FILE_LISTS = re.compile(
    r"(?:.*\.)?(?:Read[dD]ir|readdir(?:Sync)?|read_dir|Walk(?:Dir)?|walk(?:FileTree)?|Glob|globSync|list(?:Files)?|opendir(?:Sync)?"
    r"|DirFS|newDirectoryStream|[lL]?[sS]tat(?:Sync)?|exists(?:Sync)?|access(?:Sync)?|WalkDir\.new|is_file|metadata)"
)
SHOWN_MACROS = frozenset(
    ["println", "print", "eprintln", "eprint", "panic", "write", "writeln", "assert", "assert_eq", "assert_ne", "todo",
     "unreachable", "unimplemented", "debug_assert", "debug_assert_eq", "matches", "info", "warn", "error", "debug"]
)  # fmt: skip

# --- functions whose value is known --------------------------------------------------------------------------------

SAME = frozenset(
    [
        "to_string", "to_owned", "into", "unwrap", "expect", "as_str", "as_ref", "as_bytes", "clone", "trim",
        "iter", "chars", "into_iter", "collect", "bytes", "to_vec", "toString", "getBytes", "toCharArray", "strip",
        "intern", "toPath", "toFile", "toAbsolutePath", "normalize", "valueOf", "as_os_str", "to_path_buf",
        "display", "into_owned", "unwrap_or_default", "stream", "toArray", "String"
    ]
)  # fmt: skip
"""Methods whose value is that of the object they are called on."""
OF_FIRST = frozenset(
    [
        "string", "String", "String.from", "String.valueOf", "String.from_utf8", "String.from_utf8_lossy",
        "std.str.from_utf8", "str.from_utf8", "Path.new", "std.path.Path.new", "PathBuf.from",
        "std.path.PathBuf.from", "strings.TrimSpace", "C.CString", "java.io.File", "java.net.URI.create",
        "java.net.URL", "java.net.URI", "StringBuilder", "StringBuffer", "strings.NewReader",
        "bytes.NewBufferString", "CString.new", "std.ffi.CString.new", "OsStr.new", "OsString.from", "URL",
        "Box.from", "unescape", "decodeURIComponent", "decodeURI", "[]byte", "[]rune", "Some", "Ok",
        "filepath.Clean", "path/filepath.Clean", "java.lang.String", "Array.from"
    ]
)  # fmt: skip
"""Functions whose value is that of their first argument."""
OF_LIST = frozenset(
    ["java.util.List.of", "java.util.Arrays.asList", "Stream.of", "Vec.from", "Arrays.asList", "List.of"]
)
JOINED_PATHS = frozenset(
    ["path/filepath.Join", "path.Join", "path.join", "path.resolve", "path.posix.join", "java.nio.file.Paths.get",
     "java.nio.file.Path.of"]
)  # fmt: skip
FORMATS = frozenset(["fmt.Sprintf", "String.format", "util.format", "java.lang.String.format"])
