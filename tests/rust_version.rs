//! What the compilers of the developers take, but Rust 1.85 does not, which `Cargo.toml` promises to be enough: a `let` of a
//! `format_args!`, whose parts live on from 1.89 only. (`dev/check --packages 17` compiles everything with 1.85.)

use std::fs;
use std::path::{Path, PathBuf};

fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("src is readable") {
        let path = entry.expect("src is readable").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

/// Whether `text` has such a `let`; blanks and line ends do not matter.
fn keeps_format_args(text: &str) -> bool {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.windows(4).any(|w| w[0] == "let" && w[2] == "=" && w[3].starts_with("format_args!("))
}

#[test]
fn no_format_args_outlives_its_statement() {
    assert!(keeps_format_args("let message =\n    format_args!(\"{x}\");"));
    assert!(!keeps_format_args("let line = format!(\"{}\", format_args!(\"{x}\"));"));
    let mut files = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut files);
    assert!(files.len() > 30, "only {} source files found", files.len());
    for file in files {
        let text = fs::read_to_string(&file).expect("sources are UTF-8");
        assert!(!keeps_format_args(&text), "{}: put format_args! where it is used", file.display());
    }
}
