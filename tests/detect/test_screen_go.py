"""Go files that look quiet and are not, and honest ones that are."""

from __future__ import annotations

import pytest

from tests.detect.test_screen import cleared, read_hits, write


def program(imports: str, body: str, before: str = "") -> str:
    named = "".join(f'\t"{name}"\n' for name in imports.split())
    return f"package main\n\nimport (\n{named})\n\n{before}func main() {{\n{body}\n}}\n"


def opening(body: str, name: str = "name", before: str = "", imports: str = "os io") -> str:
    """A program that opens a file of that name; `evil` is a text that begins with a slash."""
    body = f"evil := string(rune(6*8 - 1)); {body}; f, _ := os.Open({name}); io.Copy(os.Stdout, f)"
    return program(imports, body, before)


@pytest.mark.parametrize(
    ("why", "body"),
    [
        (
            "rune2",
            program(
                "os", ('n := string(rune(len(os.Args)*46 + 1)) + "eval";b, _ := os.ReadFile(n); os.Stdout.Write(b)')
            ),
        ),
        ("shift", program("os", 'n := string(rune(1<<5 | 15)) + "eval";b, _ := os.ReadFile(n); os.Stdout.Write(b)')),
        ("arg0", program("os", 'n := os.Args[0][:1] + "eval";b, _ := os.ReadFile(n); os.Stdout.Write(b)')),
        (
            "append",
            program(
                "os",
                ("var x []byte; x = append(x, 46); x[0]++; n := string(x);b, _ := os.ReadFile(n); os.Stdout.Write(b)"),
            ),
        ),
        (
            "builder",
            program(
                "os strings",
                (
                    "var x strings.Builder; c := byte(46); c++; x.WriteByte(c); n := x.String();b, _ := "
                    "os.ReadFile(n); os.Stdout.Write(b)"
                ),
            ),
        ),
        (
            "map",
            program(
                "os strings",
                (
                    "n := strings.Map(func(r rune) rune { if r == '-' { return r + 2 }; return r }, "
                    '"-eval");b, _ := os.ReadFile(n); os.Stdout.Write(b)'
                ),
            ),
        ),
        (
            "fmt",
            program(
                "os fmt", ('n := fmt.Sprintf("%v", string(rune(48 - 1)));b, _ := os.ReadFile(n); os.Stdout.Write(b)')
            ),
        ),
        ("time", program("os time", 'n := time.Now().Format("01\\x2f02");b, _ := os.ReadFile(n); os.Stdout.Write(b)')),
        ("time const", program("os time", "n := time.DateOnly;b, _ := os.ReadFile(n); os.Stdout.Write(b)")),
        (
            "big",
            program(
                "os math/big",
                (
                    "n := string(big.NewInt(46).Add(big.NewInt(46), big.NewInt(1)).Bytes());b, _ := "
                    "os.ReadFile(n); os.Stdout.Write(b)"
                ),
            ),
        ),
        (
            "unquote",
            program(
                "os strconv",
                (
                    'n, _ := strconv.Unquote(string(rune(34)) + "\\\\057" + string(rune(34)));b, _ := '
                    "os.ReadFile(n); os.Stdout.Write(b)"
                ),
            ),
        ),
        (
            "rangetable",
            program(
                "os unicode", ("n := string(rune(unicode.Po.R16[0].Hi + 3));b, _ := os.ReadFile(n); os.Stdout.Write(b)")
            ),
        ),
        (
            "error",
            program(
                "os",
                ('_, e := os.Open(os.Args[0] + "x"); n := e.Error()[7:9];b, _ := os.ReadFile(n); os.Stdout.Write(b)'),
            ),
        ),
        ("executable", program("os", "n, _ := os.Executable();b, _ := os.ReadFile(n); os.Stdout.Write(b)")),
        ("getwd", program("os", "n, _ := os.Getwd();b, _ := os.ReadFile(n); os.Stdout.Write(b)")),
        ("env", program("os", 'n := os.Getenv("HOME");b, _ := os.ReadFile(n); os.Stdout.Write(b)')),
        ("environ", program("os", "n := os.Environ()[0];b, _ := os.ReadFile(n); os.Stdout.Write(b)")),
        ("pathsep", program("os", "n := string(os.PathSeparator);b, _ := os.ReadFile(n); os.Stdout.Write(b)")),
        ("devnull", program("os", "n := os.DevNull;b, _ := os.ReadFile(n); os.Stdout.Write(b)")),
        ("tempdir", program("os", "n := os.TempDir();b, _ := os.ReadFile(n); os.Stdout.Write(b)")),
        ("expand", program("os", 'n := os.ExpandEnv("$HOME");b, _ := os.ReadFile(n); os.Stdout.Write(b)')),
        ("file name", program("os", "n := os.Stdin.Name();b, _ := os.ReadFile(n); os.Stdout.Write(b)")),
        ("file name2", program("os", 'n := os.Stdin.Name()[:1] + "eval";b, _ := os.ReadFile(n); os.Stdout.Write(b)')),
        (
            "stdin name",
            program("os", ("var f *os.File = os.Stdin; n := f.Name();b, _ := os.ReadFile(n); os.Stdout.Write(b)")),
        ),
        ("errors", program("os io", "n := io.EOF.Error();b, _ := os.ReadFile(n); os.Stdout.Write(b)")),
        (
            "flag",
            program(
                "os flag", ('n := flag.String("f", "x", "y"); flag.Parse();b, _ := os.ReadFile(*n); os.Stdout.Write(b)')
            ),
        ),
        ("args change", program("os", 'os.Args[0] = "x";b, _ := os.ReadFile(os.Args[1]); os.Stdout.Write(b)')),
        (
            "args change2",
            program(
                "os",
                (
                    "c := 46; os.Args = []string{string(rune(c + 1))};b, _ := os.ReadFile(os.Args[0]); "
                    "os.Stdout.Write(b)"
                ),
            ),
        ),
        ("create", program("os", 'os.Create("x")')),
        ("create method val", program("os", 'f := os.Create; f("x")')),
        ("writefile", program("os", 'os.WriteFile("x", nil, 0644)')),
        ("mkdir", program("os", 'os.Mkdir("x", 0)')),
        ("rename", program("os", 'os.Rename("x", "y")')),
        ("openfile", program("os", 'os.OpenFile("x", 577, 0644)')),
        ("dirfs", program("os", 'os.DirFS(".")')),
        ("newfile", program("os", 'f := os.NewFile(3, "x"); f.Write(nil)')),
        ("readdir", program("os", "f, _ := os.Open(os.Args[1]); f.ReadDir(0)")),
        ("chmod", program("os", "f, _ := os.Open(os.Args[1]); f.Chmod(0)")),
        ("file methods", program("os", "f, _ := os.Open(os.Args[1]); f.Readdirnames(0)")),
        ("startprocess", program("os", 'os.StartProcess("x", nil, nil)')),
        ("space dot", program("os", 'os .Create("x")')),
        ("nl dot", program("os", 'os.\nCreate("x")')),
        ("comment dot", program("os", 'os./* x */Create("x")')),
        ("comment dot2", program("os", 'os/* x */.Create("x")')),
        ("paren", program("os", '(os.Create)("x")')),
        ("alias import", 'package main\nimport o "os"\nfunc main() { o.Create("x") }\n'),
        ("alias import paren", 'package main\nimport (\n\to "os"\n)\nfunc main() { o.Create("x") }\n'),
        (
            "alias import paren2",
            ('package main\nimport ("fmt"; o "os")\nfunc main() { o.Create("x"); fmt.Println() }\n'),
        ),
        ("dot import", 'package main\nimport . "os"\nfunc main() { Create("x") }\n'),
        ("dot import paren", 'package main\nimport (\n\t. "os"\n)\nfunc main() { Create("x") }\n'),
        ("dot import paren nosp", 'package main\nimport (."os")\nfunc main() { Create("x") }\n'),
        ("raw import", 'package main\nimport `os`\nfunc main() { os.Create("x") }\n'),
        ("raw import alias", 'package main\nimport o `os`\nfunc main() { o.Create("x") }\n'),
        ("raw import2", 'package main\nimport (\n\t`os/exec`\n)\nfunc main() { exec.Command("x") }\n'),
        ("esc import", 'package main\nimport "o\\x73"\nfunc main() { os.Create("x") }\n'),
        ("esc import2", 'package main\nimport x "\\x6fs/exec"\nfunc main() { x.Command("x") }\n'),
        ("esc import3", 'package main\nimport (\n\tx "\\x6fs"\n)\nfunc main() { x.Create("x") }\n'),
        ("import;", 'package main; import "os/exec"\nfunc main() { exec.Command("x") }\n'),
        ("import other", 'package main\nimport (\n\t"net"\n)\nfunc main() { net.Dial("tcp", "x") }\n'),
        (
            "import other2",
            ('package main\nimport (\n\t"fmt"\n\t"net"\n)\nfunc main() { net.Dial("tcp", "x"); fmt.Println() }\n'),
        ),
        ("import http", 'package main\nimport (\n\t"net/http"\n)\nfunc main() { http.Get("x") }\n'),
        ("import syslog", 'package main\nimport (\n\t"log/syslog"\n)\nfunc main() { syslog.New(0, "x") }\n'),
        ("import fs", 'package main\nimport (\n\t"io/fs"\n)\nfunc main() { fs.ReadDir(nil, "x") }\n'),
        ("import go/parser", ('package main\nimport (\n\t"go/build"\n)\nfunc main() { build.Import("x", "", 0) }\n')),
        ("import archive", 'package main\nimport (\n\t"archive/zip"\n)\nfunc main() { zip.OpenReader("x") }\n'),
        (
            "import template",
            ('package main\nimport (\n\t"text/template"\n)\nfunc main() { template.ParseFiles("x") }\n'),
        ),
        ("import glob", ('package main\nimport (\n\t"html/template"\n)\nfunc main() { template.ParseGlob("x") }\n')),
        ("import debug", 'package main\nimport (\n\t"debug/elf"\n)\nfunc main() { elf.Open("x") }\n'),
        ("import runtime", ('package main\nimport (\n\t"runtime/debug"\n)\nfunc main() { debug.WriteHeapDump(3) }\n')),
        ("import tls", ('package main\nimport (\n\t"crypto/tls"\n)\nfunc main() { tls.Dial("tcp", "x", nil) }\n')),
        ("import local", 'package main\nimport (\n\t"main/evil"\n)\nfunc main() { evil.Run() }\n'),
        (
            "import local2",
            ('package main\nimport (\n\t"fmt"\n\t"./evil"\n)\nfunc main() { evil.Run(); fmt.Println() }\n'),
        ),
        ("import C", 'package main\n\n// int fork();\nimport "C"\nfunc main() { C.fork() }\n'),
        (
            "import embed",
            ('package main\nimport _ "embed"\n//go:embed main.py\nvar s string\nfunc main() { println(s) }\n'),
        ),
        (
            "linkname",
            (
                'package main\nimport (\n\t"fmt"\n)\n/*line x:1*/\n//go:linkname f os.Create\nfunc f()\n'
                "func main() { f(); fmt.Println() }\n"
            ),
        ),
        ("methods value", program("os", "var w = os.Stdout; w.Chdir()")),
        ("LookupEnv", program("os", 'n, _ := os.LookupEnv("X");b, _ := os.ReadFile(n); os.Stdout.Write(b)')),
        ("time load", program("time", 'time.LoadLocation("x")')),
        (
            "regexp",
            program("regexp os", 'n := regexp.MustCompile("x").String();b, _ := os.ReadFile(n); os.Stdout.Write(b)'),
        ),
        (
            "iface",
            program(
                "os io", ("type t interface { Chmod(os.FileMode) error }; var x io.Reader = os.Stdin; x.(t).Chmod(0)")
            ),
        ),
        (
            "iface3",
            program(
                "os io",
                (
                    "var x io.Reader = os.Stdin; n := x.(interface { Name() string }).Name();b, _ := "
                    "os.ReadFile(n); os.Stdout.Write(b)"
                ),
            ),
        ),
        ("SetEnv", program("os", 'os.Setenv("A", "b")')),
        ("os var", program("os", 'var os = struct{ Create func(string) }{}; os.Create("x")')),
        ("symbol", program("os", 'os.Symlink("x", "y"); os.Link("x", "y")')),
        ("Sprintf %c", program("os fmt", 'n := fmt.Sprintf("%c", 6*8-1);b, _ := os.ReadFile(n); os.Stdout.Write(b)')),
        (
            "Sprintf %[1]c",
            program("os fmt", 'n := fmt.Sprintf("%[1]c", 6*8-1);b, _ := os.ReadFile(n); os.Stdout.Write(b)'),
        ),
        ("Sprintf %#U", program("os fmt", 'n := fmt.Sprintf("%#U", 6*8-1);b, _ := os.ReadFile(n); os.Stdout.Write(b)')),
        (
            "Sprintf split",
            program("os fmt", 'n := fmt.Sprintf("%"+"c", 6*8-1);b, _ := os.ReadFile(n); os.Stdout.Write(b)'),
        ),
        (
            "Sprintf b",
            program(
                "os fmt",
                ('n := fmt.Sprintf("%" + string(os.Args[1][0]), 6*8-1);b, _ := os.ReadFile(n); os.Stdout.Write(b)'),
            ),
        ),
        (
            "Sprintf s bytes",
            program(
                "os fmt",
                (
                    'x := make([]byte, 1); x[0] = 6*8-1; n := fmt.Sprintf("%s", x);b, _ := '
                    "os.ReadFile(n); os.Stdout.Write(b)"
                ),
            ),
        ),
        (
            "utf8",
            program(
                "os unicode/utf8",
                ("x := utf8.AppendRune(nil, 6*8-1); n := string(x);b, _ := os.ReadFile(n); os.Stdout.Write(b)"),
            ),
        ),
        (
            "byte write",
            program("os", ('x := []byte(".eval"); x[0]++; n := string(x);b, _ := os.ReadFile(n); os.Stdout.Write(b)')),
        ),
        (
            "byte xor",
            program(
                "os", ('x := []byte(".eval"); x[0] ^= 1; n := string(x);b, _ := os.ReadFile(n); os.Stdout.Write(b)')
            ),
        ),
        (
            "FormatInt",
            program("os strconv", "n := strconv.FormatInt(3, 36);b, _ := os.ReadFile(n); os.Stdout.Write(b)"),
        ),
        (
            "quote",
            program("os strconv", "n := strconv.QuoteRune(6*8-1)[1:2];b, _ := os.ReadFile(n); os.Stdout.Write(b)"),
        ),
        (
            "bytes",
            program(
                "os bytes",
                (
                    "var b2 bytes.Buffer; b2.WriteRune(6*8-1); n := b2.String();b, _ := os.ReadFile(n); "
                    "os.Stdout.Write(b)"
                ),
            ),
        ),
        ("func open", program("os", 'g := os.Open; f, _ := g("x"); _ = f')),
        ("map of func", program("os", 'm := map[string]func(string) (*os.File, error){"a": os.Create}; m["a"]("x")')),
        ("plugin", 'package main\nimport (\n\t"plugin"\n)\nfunc main() { plugin.Open("x") }\n'),
    ],
)
def test_what_is_imported_called_and_opened_is_known(why: str, body: str):
    assert not cleared(write("main.go", body)), why


@pytest.mark.parametrize(
    ("why", "body"),
    [
        ("direct", opening("name := evil")),
        ("var", opening("var name = evil")),
        ("var typed", opening("var name string = evil")),
        ("var later", opening("var name string; name = evil")),
        ("var later nl", opening("var name string\nname =\n evil\n")),
        ("var block", opening("_ = name", "name", "var (\n\tname string = string(rune(6*8 - 1))\n)\n")),
        ("var block2", opening("_ = name", "name", "var (\n\tname = string(rune(6*8 - 1))\n)\n")),
        ("multi", opening("a, name := 1, evil; _ = a")),
        ("multi var", opening("var a, name = 1, evil; _ = a")),
        ("multi var typed", opening('var a, name string = "", evil; _ = a')),
        (
            "multi fn",
            opening("name, a := pair(evil); _ = a", "name", "func pair(s string) (string, int) { return s, 1 }\n"),
        ),
        ("swap", opening("name := os.Args[1]; name, evil = evil, name")),
        ("plus", opening("name := os.Args[1]; name += evil")),
        ("concat", opening("name := os.Args[1] + evil")),
        ("concat2", opening("name := os.Args[1] +\n evil")),
        ("pointer", opening("name := os.Args[1]; p := &name; *p = evil")),
        ("pointer2", opening("name := new(string); *name = evil; x := *name", "x")),
        ("closure", opening("name := os.Args[1]; func() { name = evil }()")),
        ("if", opening("name := os.Args[1]; if true { name = evil }")),
        ("if2", opening("name := os.Args[1]; if name = evil; true { }")),
        (
            "range list",
            opening(
                ("l := []string{evil}; for _, name := range l { f, _ := os.Open(name); io.Copy(os.Stdout, f) }"),
                "os.Args[1]",
            ),
        ),
        (
            "range lit",
            opening(
                ("for _, name := range []string{evil} { f, _ := os.Open(name); io.Copy(os.Stdout, f) }"), "os.Args[1]"
            ),
        ),
        (
            "range lit nl",
            opening(
                ("for _, name := range []string{\nevil,\n} { f, _ := os.Open(name); io.Copy(os.Stdout, f) }"),
                "os.Args[1]",
            ),
        ),
        (
            "range map",
            opening(
                ("for name := range map[string]int{evil: 1} { f, _ := os.Open(name); io.Copy(os.Stdout, f) }"),
                "os.Args[1]",
            ),
        ),
        (
            "range map2",
            opening(
                (
                    "m := map[string]int{evil: 1}; for name, _ := range m { f, _ := os.Open(name); "
                    "io.Copy(os.Stdout, f) }"
                ),
                "os.Args[1]",
            ),
        ),
        (
            "range chan",
            opening(
                (
                    "c := make(chan string, 1); c <- evil; for name := range c { f, _ := os.Open(name); "
                    "io.Copy(os.Stdout, f) }"
                ),
                "os.Args[1]",
            ),
        ),
        ("chan", opening("c := make(chan string, 1); c <- evil; name := <-c")),
        ("chan select", opening("c := make(chan string, 1); c <- evil; var name string; select { case name = <-c: }")),
        ("append", opening("l := os.Args[1:]; l = append(l, evil); name := l[1]")),
        ("append2", opening("l := os.Args[1:]; l = append(l, []string{evil}...); name := l[1]")),
        ("append over", opening("_ = append(os.Args[:1], evil); name := os.Args[1]")),
        ("append over2", opening("x := append(os.Args[:1], evil); _ = x; name := os.Args[1]")),
        ("append over3", opening("l := os.Args[:1]; m := append(l, evil); _ = m; name := os.Args[1]")),
        (
            "append fn",
            opening("use(append(os.Args[:1], evil)); name := os.Args[1]", "name", "func use(s []string) {}\n"),
        ),
        ("store", opening("os.Args[1] = evil; name := os.Args[1]")),
        ("store2", opening("l := os.Args; l[1] = evil; name := os.Args[1]")),
        ("store3", opening("l := os.Args[1:]; l[0] = evil; name := os.Args[1]")),
        ("store4", opening("l, m := os.Args[1:], 1; _ = m; l[0] = evil; name := os.Args[1]")),
        (
            "store fn",
            opening(
                "edit(os.Args, evil); name := os.Args[1]", "name", "func edit(l []string, s string) { l[1] = s }\n"
            ),
        ),
        ("store ptr", opening("p := &os.Args[1]; *p = evil; name := os.Args[1]")),
        ("store ptr2", opening("p := &os.Args; (*p)[1] = evil; name := os.Args[1]")),
        ("copy", opening('copy(os.Args, []string{"", evil}); name := os.Args[1]')),
        ("copy2", opening("l := os.Args[1:]; copy(l, []string{evil}); name := os.Args[1]")),
        ("args new", opening('os.Args = []string{"", evil}; name := os.Args[1]')),
        ("args multi", opening('os.Args, _ = []string{"", evil}, 1; name := os.Args[1]')),
        ("struct", opening("type t struct{ l []string }; x := t{os.Args}; x.l[1] = evil; name := os.Args[1]")),
        ("struct2", opening("x := struct{ l []string }{l: os.Args}; x.l[1] = evil; name := os.Args[1]")),
        ("array of", opening("x := [][]string{os.Args}; x[0][1] = evil; name := os.Args[1]")),
        ("iface", opening("var x interface{} = os.Args; x.([]string)[1] = evil; name := os.Args[1]")),
        (
            "return",
            opening("args()[1] = evil; name := os.Args[1]", "name", "func args() []string { return os.Args }\n"),
        ),
        ("flag args", opening("flag.Args()[0] = evil; name := flag.Arg(0)", "name", "", "os io flag")),
        ("flag args2", opening("l := flag.Args(); l[0] = evil; name := flag.Arg(0)", "name", "", "os io flag")),
        (
            "flag args3",
            opening(
                "edit(flag.Args(), evil); name := flag.Arg(0)",
                "name",
                "func edit(l []string, s string) { l[0] = s }\n",
                "os io flag",
            ),
        ),
        ("flag args4", opening("_ = append(flag.Args()[:0], evil); name := flag.Arg(0)", "name", "", "os io flag")),
        ("flag args5", opening("copy(flag.Args(), []string{evil}); name := flag.Arg(0)", "name", "", "os io flag")),
        ("flag args6", opening("p := &flag.Args()[0]; *p = evil; name := flag.Arg(0)", "name", "", "os io flag")),
        (
            "flag args7",
            opening(
                "for i := range flag.Args() { flag.Args()[i] += evil }; name := flag.Arg(0)", "name", "", "os io flag"
            ),
        ),
        (
            "flag args8",
            opening(
                ("type t struct{ l []string }; x := t{flag.Args()}; x.l[0] = evil; name := flag.Arg(0)"),
                "name",
                "",
                "os io flag",
            ),
        ),
        ("flag cmd", opening("flag.CommandLine.Parse([]string{evil}); name := flag.Arg(0)", "name", "", "os io flag")),
        (
            "flag cmd2",
            opening("c := flag.CommandLine; c.Parse([]string{evil}); name := flag.Arg(0)", "name", "", "os io flag"),
        ),
        (
            "flag new",
            opening(
                'flag := flag.NewFlagSet("x", 0); flag.Parse([]string{evil}); name := flag.Arg(0)',
                "name",
                "",
                "os io flag",
            ),
        ),
        (
            "flag new2",
            opening('flag.CommandLine = flag.NewFlagSet("x", 0); name := flag.Arg(0)', "name", "", "os io flag"),
        ),
        (
            "flag shadow",
            opening(
                "var flag fl; name := flag.Arg(0)",
                "name",
                "type fl struct{}\nfunc (fl) Arg(int) string { return string(rune(6*8-1)) }\n",
            ),
        ),
        (
            "flag shadow2",
            opening(
                "name := show(fl{})",
                "name",
                (
                    "type fl struct{}\nfunc (fl) Arg(int) string { return string(rune(6*8-1)) }\n"
                    "func show(flag fl) string { name := flag.Arg(0); return name }\n"
                ),
            ),
        ),
        (
            "flag shadow3",
            opening(
                "show(fl{})",
                "os.Args[1]",
                (
                    "type fl struct{}\nfunc (fl) Arg(int) string { return string(rune(6*8-1)) }\n"
                    "func show(flag fl) { name := flag.Arg(0); os.Open(name) }\n"
                ),
            ),
        ),
        (
            "flag shadow4",
            opening(
                "flag := fl{}; name := flag.Arg(0)",
                "name",
                "type fl struct{}\nfunc (fl) Arg(int) string { return string(rune(6*8-1)) }\n",
            ),
        ),
        (
            "flag shadow5",
            opening(
                "flag, _ := fl{}, 1; name := flag.Arg(0)",
                "name",
                "type fl struct{}\nfunc (fl) Arg(int) string { return string(rune(6*8-1)) }\n",
            ),
        ),
        (
            "flag shadow6",
            opening(
                "for _, flag := range []fl{{}} { name := flag.Arg(0); os.Open(name) }",
                "os.Args[1]",
                "type fl struct{}\nfunc (fl) Arg(int) string { return string(rune(6*8-1)) }\n",
            ),
        ),
        ("os shadow", opening("os := struct{ Args []string }{[]string{evil, evil}}; name := os.Args[1]")),
        (
            "append shadow",
            opening(
                "append := func(l []string, s string) []string { return []string{evil} }; l := "
                "append(nil, os.Args[1]); name := l[0]"
            ),
        ),
        (
            "append shadow2",
            opening(
                "l := []string{}; l = append(l, os.Args[1]); name := l[0]",
                "name",
                ("func append(l []string, s string) []string { return []string{string(rune(47-0))} }\n"),
            ),
        ),
        (
            "append shadow3",
            opening(
                ("l := use(func(l []string, s string) []string { return []string{evil} }); name := l[0]"),
                "name",
                (
                    "func use(append func([]string, string) []string) []string { l := append(nil, "
                    "os.Args[1]); return l }\n"
                ),
            ),
        ),
        (
            "append shadow4",
            opening(
                "x(func(l []string, s string) []string { return []string{evil} })",
                "os.Args[1]",
                (
                    "func x(append func([]string, string) []string) { var l []string; l = append(l, "
                    "os.Args[1]); name := l[0]; os.Open(name) }\n"
                ),
            ),
        ),
        ("nil shadow", opening("nil := []string{evil}; l := nil; name := l[0]")),
        (
            "nil shadow2",
            opening("var l []string; l = nil; name := l[0]", "name", "var nil = []string{string(rune(6*8-1))}\n"),
        ),
        (
            "string shadow",
            opening("l := []string{os.Args[1]}; name := l[0].x", "name", "type string struct{ x int }\n"),
        ),
        ("param", opening("show(evil)", "os.Args[1]", "func show(name string) { os.Open(name) }\n")),
        ("param2", opening("show(1, evil)", "os.Args[1]", "func show(n int, name string) { os.Open(name) }\n")),
        ("param3", opening("show(os.Args[1], evil)", "os.Args[1]", "func show(a, name string) { os.Open(name) }\n")),
        ("param4", opening("show(evil, os.Args[1])", "os.Args[1]", "func show(name, a string) { os.Open(name) }\n")),
        (
            "param5",
            opening("g := show; g(evil); show(os.Args[1])", "os.Args[1]", "func show(name string) { os.Open(name) }\n"),
        ),
        ("param6", opening("show := func(name string) { os.Open(name) }; show(evil)", "os.Args[1]")),
        ("param7", opening("func(name string) { os.Open(name) }(evil)", "os.Args[1]")),
        (
            "param8",
            opening(
                "each(func(name string) { os.Open(name) })",
                "os.Args[1]",
                "func each(f func(string)) { f(string(rune(6*8-1))) }\n",
            ),
        ),
        ("param9", opening("show(evil); show(os.Args[1])", "os.Args[1]", "func show(name string) { os.Open(name) }\n")),
        (
            "param10",
            opening("t{}.show(evil)", "os.Args[1]", "type t struct{}\nfunc (t) show(name string) { os.Open(name) }\n"),
        ),
        (
            "param11",
            opening("t(evil).show()", "os.Args[1]", "type t string\nfunc (name t) show() { os.Open(string(name)) }\n"),
        ),
        ("param12", opening("t(evil).show()", "os.Args[1]", "type t = string\nfunc show(name t) { os.Open(name) }\n")),
        ("param13", opening("show(\nevil,\n)", "os.Args[1]", "func show(\n\tname string,\n) {\n\tos.Open(name)\n}\n")),
        (
            "param14",
            opening(
                "show(evil)",
                "os.Args[1]",
                "func show(names ...string) { for _, name := range names { os.Open(name) } }\n",
            ),
        ),
        (
            "param15",
            opening(
                "show([]string{evil})",
                "os.Args[1]",
                "func show(names []string) { for _, name := range names { os.Open(name) } }\n",
            ),
        ),
        (
            "param16",
            opening("show [string](evil)", "os.Args[1]", "func show[T ~string](name T) { os.Open(string(name)) }\n"),
        ),
        ("param17", opening("show(evil)", "os.Args[1]", "func show[T any](name string) { os.Open(name) }\n")),
        (
            "result",
            opening("x(evil)", "os.Args[1]", "func x(s string) (name string) { name = s; os.Open(name); return }\n"),
        ),
        (
            "result2",
            opening(
                "x(evil)",
                "os.Args[1]",
                ("func x(s string) (n int, name string) { defer func() { os.Open(name) }(); return 1, s }\n"),
            ),
        ),
        (
            "result3",
            opening(
                "x(evil)",
                "os.Args[1]",
                "func x(s string) (name string) { defer func() { os.Open(name) }(); return s }\n",
            ),
        ),
        ("field", opening("x := struct{ name string }{evil}", "x.name")),
        ("const", opening('const name = "a" + "b"')),
        ("iota", opening("const name = string(rune(46 + iota + 1))")),
        (
            "switch",
            opening("var v interface{} = evil; switch name := v.(type) { case string: os.Open(name) }", "os.Args[1]"),
        ),
        ("assert", opening("var v interface{} = evil; name, _ := v.(string)")),
        ("sscan", opening('name := ""; fmt.Sscan(evil, &name)', "name", "", "os io fmt")),
        ("index list", opening("l := []string{evil}", "l[0]")),
        ("index list2", opening("var l [1]string; l[0] = evil", "l[0]")),
        ("index list3", opening("l := make([]string, 1); l[0] = evil", "l[0]")),
        ("index map", opening("m := map[int]string{0: evil}", "m[0]")),
        ("index map2", opening('m := map[string]string{}; m["a"] = evil; k := "a"; name := m[k]')),
        ("comma paren", opening("(name) = evil", "name", "var name string\n")),
        ("comma paren2", opening("(name), _ = evil, 1", "name", "var name string\n")),
        ("decl nl", opening("var\nname\nstring; name = evil")),
        ("comment", opening("name /* x */ := /* y */ evil")),
        ("other func", opening("set(evil)", "name", 'var name = ""\nfunc set(s string) { name = s }\n')),
        ("func value", opening("f2 := func() string { return evil }; name := f2()")),
        ("slices", opening("l := os.Args[0:0]; l = l[:2]; l[1] = evil; name := os.Args[1]")),
        ("ReadFile fn", opening("g := os.ReadFile; b, _ := g(evil); _ = b", "os.Args[1]")),
        (
            "param skip",
            opening("show(evil)", "os.Args[1]", "func show(x interface{}) { name := x.(string); os.Open(name) }\n"),
        ),
        (
            "skip header",
            opening("show(evil)", "os.Args[1]", "func show(name string) interface{} { os.Open(name); return 1 }\n"),
        ),
        (
            "skip literal",
            opening("show := func(name string) interface{} { os.Open(name); return 1 }; show(evil)", "os.Args[1]"),
        ),
        (
            "skip literal2",
            opening(
                ("show := func(x struct{}, name string) (int) { os.Open(name); return 1 }; show(struct{}{}, evil)"),
                "os.Args[1]",
            ),
        ),
        (
            "skip literal3",
            opening("show := func(name string, x func() struct{}) { os.Open(name) }; show(evil, nil)", "os.Args[1]"),
        ),
        (
            "skip literal4",
            opening("show := func(name string) { other = name }; show(evil)", "other", 'var other = ""\n'),
        ),
        (
            "skip literal5",
            opening("show := func(name string) func() { return func() { os.Open(name) } }; show(evil)()", "os.Args[1]"),
        ),
        (
            "skip literal6",
            opening(
                ("show := func(name string) map[struct{}]int { os.Open(name); return nil }; show(evil)"), "os.Args[1]"
            ),
        ),
        (
            "skip literal7",
            opening(
                ('show := func(name string) [len("{}")]int { os.Open(name); return [2]int{} }; show(evil)'),
                "os.Args[1]",
            ),
        ),
        (
            "skip literal8",
            opening(
                ("show := func(name string) [len([...]int{1})]int { os.Open(name); return [1]int{} }; show(evil)"),
                "os.Args[1]",
            ),
        ),
    ],
)
def test_names_of_files_are_arguments(why: str, body: str):
    assert not cleared(write("main.go", body)), why


@pytest.mark.parametrize(
    "body",
    [
        program(
            "fmt io os",
            (
                "for _, name := range os.Args[1:] {\nf, err := os.Open(name)\nif err != nil {\n"
                "fmt.Fprintln(os.Stderr, err)\nos.Exit(1)\n}\nio.Copy(os.Stdout, f)\n}"
            ),
        ),
        program(
            "fmt io os",
            (
                'var files []string\nfor _, a := range os.Args[1:] {\nif a == "-n" {\ncontinue\n}\n'
                'files = append(files, a)\n}\nif len(files) == 0 {\nfiles = []string{"-"}\n}\n'
                'for i, name := range files {\nf := os.Stdin\nif name != "-" {\nvar err error\n'
                "f, err = os.Open(name)\nif err != nil {\nfmt.Fprintln(os.Stderr, err, i)\ncontinue\n}\n"
                "}\nio.Copy(os.Stdout, f)\n}"
            ),
        ),
        program(
            "bufio flag fmt os",
            (
                'n := flag.Int("n", 10, "lines")\nflag.Parse()\nnames := flag.Args()\n'
                'if len(names) == 0 {\nnames = append(names, "")\n}\nfor _, name := range names {\n'
                "show(name, *n)\n}"
            ),
            (
                'func show(name string, n int) {\nf := os.Stdin\nif name != "" && name != "-" {\n'
                "var err error\nif f, err = os.Open(name); err != nil {\n"
                'fmt.Fprintf(os.Stderr, "%s: %v\\n", name, err)\nreturn\n}\n}\ns := bufio.NewScanner(f)\n'
                "for s.Scan() && n+1 > 1 {\nfmt.Println(s.Text())\n}\n}\n\n"
            ),
        ),
    ],
)
def test_honest_programs_are_cleared(body: str):
    action = write("main.go", body)
    assert not read_hits(action)
    assert cleared(action)
