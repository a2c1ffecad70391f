"""Java that must be read: what hides code from a look at its tokens, opens otherwise than to read, makes names."""

from __future__ import annotations

import pytest

from tests.detect.test_screen import cleared, write

_TOUCHES = {
    "a writer of a name": "PrintWriter w = new PrintWriter(n);",
    "a writer of a name that is called out": "String out = n; PrintStream w = new PrintStream(out, true);",
    "a writer of a new text": 'PrintStream w = new PrintStream(new StringBuilder("o").append(n).toString());',
    "a writer of a text of a stream": 'PrintWriter w = new PrintWriter(System.out + "x");',
    "a writer of what a writer says": 'PrintWriter w = new PrintWriter(new StringWriter().append("x").toString());',
    "a writer of what a writer says, added up": 'PrintWriter w = new PrintWriter(new StringWriter() + "x");',
    "a writer by its class": "class W extends PrintWriter { W(String s) throws Exception { super(s); } } new W(n);",
    "a writer by a reference": "java.util.function.Function<OutputStream, PrintStream> f = PrintStream::new;",
    "another's out": "var System = new Object() { String out; }; PrintWriter w = new PrintWriter(System.out);",
    "preferences": 'java.util.prefs.Preferences.userRoot().put("a", "b");',
    "packages with spaces": "java . util . zip . ZipOutputStream z = null;",
    "a parser": "org.xml.sax.helpers.XMLReaderFactory.createXMLReader().parse(n);",
    "classes": "Object o = String.class.newInstance();",
    "classes in a list": "List.of(String.class).get(0).getDeclaredConstructor();",
    "members of the system": 'System s = null; s.setProperty("a", "b");',
    "members of the system by a reference": "java.util.function.Function<String, String> f = System::clearProperty;",
    "members of the system behind a remark": 'System./* x */setProperty("a", "b");',
    "a channel": "new FileInputStream(args[0]).getChannel();",
    "escapes that end a remark": r"/* \u002a\u002f new FileWriter(n); // */",
    "escapes that end a line": "// \\u000a new FileWriter(n);\n",
    "escapes in texts": r'String s = "\u0022; new FileWriter(n); String t = \u0022";',
    "code in a text": r'String s = STR."\{new FileWriter(n)}";',
    "a text block": 'String s = """\n\\"""" + "; /*"; new FileWriter(n); String t = "*/";',
}
_NAMES = {
    "arithmetic": "String f = (char) ('.' + 1) + \"eval\"; new FileReader(f);",
    "counted up": "char c = '.'; c++; String f = c + \"eval\"; new FileReader(f);",
    "added to": "String f = \"\"; char c = '.'; c++; f += c; new FileReader(f);",
    "a number's letters": "String f = new String(new java.math.BigInteger(args[0]).toByteArray()); new FileReader(f);",
    "an object's text": 'String f = "" + (Runnable) () -> { }; new FileReader(f);',
    "another way in a choice": 'String g = args + "x"; String f = args.length > 0 ? args[0] : g; new FileReader(f);',
    "an argument that is set": 'args[0] = args + "x"; new FileReader(args[0]);',
    "an argument that is set elsewhere": 'String[] b = args; b[0] = args + "x"; new FileReader(args[0]);',
    "an argument that is filled in": 'Arrays.fill(args, "" + args); new FileReader(args[0]);',
    "arguments of a call": 'if (args.length == 0) main(new String[] { "" + args }); else new FileReader(args[0]);',
    "a list that is set": 'List<String> f = new ArrayList<>(); f.add("x"); f.set(0, "" + f); new FileReader(f.get(0));',
    "a list that is filled": 'List<String> f = new ArrayList<>(); f.add("" + f); new FileReader(f.get(0));',
    "a list that others fill": "List<String> f = new ArrayList<>(); fill(f); new FileReader(f.get(0));",
    "a list that is filled by a reference": "List<String> f = new ArrayList<>(); Arrays.stream(args).map(x -> x + x)"
    ".forEach(f::add); for (String s : f) new FileReader(s);",
    "items that are changed": "for (String s : Arrays.stream(args).map(x -> x + args).toList()) new FileReader(s);",
    "a list of one's own": "L l = null; new FileReader(l.get(0)); } class L { String get(int k) { return this + k; }",
    "a known name for a list of one's own": "ArrayList<String> l = new ArrayList<>(); new FileReader(l.get(0)); }"
    " class ArrayList<T> { String get(int k) { return this + k; }",
    "a field that others set": 'new FileReader(f); } static String f; static void set() { Main.f = "" + f;',
    "a field of another class": "new FileReader(Other.NAME);",
    "a parameter": 'open(1, "" + args); } static void open(int k, String f) throws Exception { new FileReader(f);',
    "parameters": 'open("" + args); } static void open(String... f) throws Exception { new FileReader(f[0]);',
    "a parameter of a lambda": "F g = f -> new FileReader(f); } interface F { Object f(String f) throws Exception;",
    "a part of a record": 'Object o = new P("" + args); if (o instanceof P(String f)) new FileReader(f); }'
    " record P(String s) {",
}
_HONEST = {
    "a loop": "for (String a : args) try (InputStream in = Files.newInputStream(Path.of(a))) { in.read(); }",
    "a list": "List<String> files = new ArrayList<>(); for (int i = 0; i < args.length; i++) switch (args[i]) {"
    ' case "-c" -> System.out.println("c"); default -> files.add(args[i]); } new FileInputStream(files.get(0)).read();',
    "a choice": 'String f = args.length > 0 ? args[0] : "-"; Reader r = f.equals("-") ? null : new FileReader(f);',
    "streams": 'List<String> f = Arrays.stream(args).filter(x -> !x.startsWith("-")).toList();'
    ' for (String n : f) System.out.print(Files.readAllLines(Path.of(n)).get(0) + "\\n");',
    "writers": "PrintStream p = new PrintStream(new BufferedOutputStream(new FileOutputStream(FileDescriptor.out),"
    " 512), true); PrintWriter w = new PrintWriter(new OutputStreamWriter(System.out)); w.println((char) 65);",
    "classes that are told": "var m = new EnumMap<Thread.State, String>(Thread.State.class); System.out.println(m);",
}


def _main(code: str) -> str:
    head = "import java.io.*;\nimport java.nio.file.*;\nimport java.util.*;\n"
    return (
        f'{head}class Main {{ public static void main(String[] args) throws Exception {{ String n = "x"; {code} }} }}\n'
    )


@pytest.mark.parametrize("code", _TOUCHES.values(), ids=_TOUCHES)
def test_files_are_only_read(code: str):
    assert not cleared(write("Main.java", _main(code)))


@pytest.mark.parametrize("code", _NAMES.values(), ids=_NAMES)
def test_names_that_are_opened_are_given(code: str):
    assert not cleared(write("Main.java", _main(code)))


@pytest.mark.parametrize("code", _HONEST.values(), ids=_HONEST)
def test_honest_code_is_cleared(code: str):
    assert cleared(write("Main.java", _main(code)))


@pytest.mark.parametrize("named", ["prefs.Preferences", "zip.ZipOutputStream", "logging.Logger", "jar.JarOutputStream"])
def test_only_known_packages_are_imported(named: str):
    body = "import java.util.%s;\nclass Main { }\n"
    assert cleared(write("Main.java", body % "List"))
    assert not cleared(write("Main.java", body % named))
