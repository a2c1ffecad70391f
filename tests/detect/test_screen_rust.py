"""Rust that must be read: what hides code from a look at its tokens, opens otherwise than to read, makes names."""

from __future__ import annotations

import pytest

from tests.detect.test_screen import cleared, write

_FILE = "use std::fs::File;\n"
_HIDDEN = {
    "raw strings with more signs": 'let _ = r###"x"y"###; std::fs::write(n, n).unwrap(); let _ = r###"z"w"###;',
    "c strings are no token of old editions": r'let _ = stringify!(cr"\""); std::fs::write(n, n); stringify!(cr"\"");',
    "nested comments": "/* /* */ */ std::fs::write(n, n).unwrap(); /* */",
    "raw names": "std::r#fs::write(n, n).unwrap();",
}
_OPENS = {
    "a space": "let f = <File> ::create(n);",
    "the type of an item": "let f = <Option<File> as IntoIterator>::Item::create(n);",
    "options": "let f = File::options().write(true).open(n);",
    "times are written": "File::open(n).unwrap().set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();",
    "a method as a value": "let f = File::create; f(n);",
    "a trait": "let f = <File as std::convert::From<_>>::from(n);",
}
_ALONE = {
    "folders of the system": "fn main() { std::env::temp_dir().join(env::args().nth(1).unwrap()).exists(); }",
    "the own folder": "fn main() { std::env::current_dir().unwrap().read_dir().unwrap(); }",
    "attributes with spaces": '# [link(name = "x")]\nfn main() {}',
    "attributes of other kinds": '#[export_name = "malloc"]\nfn main() {}',
    "crates": 'use walkdir::WalkDir;\nfn main() { for e in WalkDir::new(".") { println!("{e:?}"); } }',
    "crates in braces": "use {glob::glob};\nfn main() {}",
    "code in remarks that is run": '//! ```\n//! std::process::Command::new("ls");\n//! ```\npub fn one() -> i32 { 1 }',
    "what cargo is told": 'fn main() { println!("cargo:rustc-link-arg=-s"); }',
    "what cargo is told, put together": 'fn main() { println!("{}:rustc-env=X=y", "cargo"); }',
}
_MADE = {
    "arithmetic": "let s = (b'.' + 1) as char;",
    "a cast that is not named": "let s: char = (b'.' + 1) as _;",
    "a function": "let s = char::from(b'.' + 1);",
    "into": "let s: char = (b'.' + 1).into();",
    "from": "let s: char = From::from(b'.' + 1);",
    "try_into": "let s: char = (45u32 + 2).try_into().unwrap();",
    "a range": "let s = ('.'..='0').nth(1).unwrap();",
    "a range with spaces": "let s = ('.'  ..z).nth(1).unwrap();",
    "a range by its type": "let s = std::ops::RangeInclusive::new('.', '0').nth(1).unwrap();",
    "bytes": "let s = String::from_utf8(vec![b'.' + 1]).unwrap();",
    "a reader of bytes": "let s = (&[b'.' + 1][..]).lines().next().unwrap().unwrap();",
    "bytes of a text": 'let v: Vec<_> = ".".bytes().map(|x| x + 1).collect(); let s = (&v[..]).lines().last();',
    "an escape": r'let s = "\u{0_2f}";',
    "an escape that ends in a line": r'let s = "\u{2_f}";',
    "a text of code": "let s = stringify!(/);",
    "the own name": "let s = &file!()[3..4];",
    "the own name, spaced": "let s = &file !()[3..4];",
    "the own name, renamed": "use std::file as g; let s = &g!()[3..4];",
    "what the compiler knows": 'let s = &env!("PATH")[0..1];',
    "what the compiler may know": 'let s = &option_env!("PATH").unwrap()[0..1];',
    "variables": 'let p = std::env::var("PWD").unwrap(); let s = &p[0..1];',
    "the program's name": "let p = std::env::args().next().unwrap(); let s = p.chars().rev().last().unwrap();",
    "the program's name, by a function": "let g = std::env::args; let s = g().next().unwrap();",
    "the program's name, shown": 'let i = std::env::args().skip(1); let s = &format!("{i:?}")[40..41];',
    "an error's text": "let e = std::io::Error::from_raw_os_error(5).to_string(); let s = &e[5..6];",
    "a place": "let s = &std::panic::Location::caller().file()[3..4];",
    "a trace": "let b = std::backtrace::Backtrace::force_capture().to_string(); let s = &b[9..10];",
    "another name for char": "type C = char; let s = (b'.' + 1) as C;",
}
_HONEST = {
    "files that are read": """use std::env;
use std::fs::File;
use std::io::{self, BufRead, BufReader};

/// Prints the lines of a file (or standard input) with their numbers.
fn number(input: Box<dyn BufRead>) -> io::Result<()> {
    for (n, line) in input.lines().enumerate() {
        println!("{:6}\\t{}", n + 1, line?);
    }
    Ok(())
}

fn main() -> io::Result<()> {
    let names: Vec<String> = env::args().skip(1).collect();
    for name in &names {
        let input: Box<dyn BufRead> = match name.as_str() {
            "-" => Box::new(BufReader::new(io::stdin())),
            _ => Box::new(BufReader::new(File::open(name)?)),
        };
        number(input)?;
    }
    Ok(())
}
""",
    "letters where nothing is opened": """use std::io::{self, Read};

fn main() {
    let mut text = String::new();
    io::stdin().read_to_string(&mut text).unwrap();
    let turned: String = text.bytes().map(|b| (b ^ 1) as char).collect();
    print!("{turned}");
}

#[cfg(test)]
mod tests {
    #[test]
    fn adds() {
        assert_eq!(('a'..='e').count(), 5);
    }
}
""",
}


def _main(code: str) -> str:
    return f'use std::io::{{BufRead, Write}};\nfn main() {{ let n = "out.txt"; {code} }}\n'


@pytest.mark.parametrize("code", _HIDDEN.values(), ids=_HIDDEN)
def test_no_code_is_hidden_from_a_look(code: str):
    assert not cleared(write("src/main.rs", _main(code)))


@pytest.mark.parametrize("code", _OPENS.values(), ids=_OPENS)
def test_files_are_only_read(code: str):
    assert cleared(write("src/main.rs", _FILE + _main("let f = File::open(n);")))
    assert not cleared(write("src/main.rs", _FILE + _main(code)))


@pytest.mark.parametrize("code", _ALONE.values(), ids=_ALONE)
def test_nothing_else_is_touched(code: str):
    assert not cleared(write("src/main.rs", code))


@pytest.mark.parametrize("code", _MADE.values(), ids=_MADE)
def test_no_letters_are_made_where_files_are_opened(code: str):
    opened = ' let n = format!("{s}eval{s}main.py"); let f = File::open(&n);'
    assert cleared(write("src/main.rs", _FILE + _main('let s = ".";' + opened)))
    assert not cleared(write("src/main.rs", _FILE + _main(code + opened)))


@pytest.mark.parametrize("code", _HONEST.values(), ids=_HONEST)
def test_honest_code_is_cleared(code: str):
    assert cleared(write("src/main.rs", code))
