//! What must hold in every file under src/, found by reading it.

use std::fs;
use std::path::{Path, PathBuf};

/// Where the macros of the fence are, and the two trampolines of the guard, which fence what they run.
const DEFINE_THE_FENCE: [&str; 3] = ["src/pg/error.rs", "src/pg/fmgr.rs", "src/pg/guard.rs"];

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

/// The name below the root and the text of each file.
fn texts() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    sources(&root.join("src"), &mut files);
    assert!(files.len() > 30, "only {} source files found", files.len());
    let read = |file: PathBuf| {
        let name = file.strip_prefix(root).expect("below the root").display().to_string();
        (name, fs::read_to_string(&file).expect("sources are UTF-8"))
    };
    files.into_iter().map(read).collect()
}

/// Every function that PostgreSQL calls is behind the panic fence: they are all made by the macros `pg_callback!` and
/// `pg_function!`, and nothing else in the sources defines one.
#[test]
fn no_entry_point_is_outside_the_fence() {
    let mut outside = Vec::new();
    for (name, text) in texts().iter().filter(|(name, _)| !DEFINE_THE_FENCE.contains(&name.as_str())) {
        for (i, line) in text.lines().enumerate() {
            if !line.trim_start().starts_with("//") && line.contains("extern \"C\"") && line.contains("fn ") {
                outside.push(format!("{name}:{}: {}", i + 1, line.trim()));
            }
        }
    }
    assert!(outside.is_empty(), "use pg_callback! or pg_function!:\n{}", outside.join("\n"));
}

/// Whether `text` has a `let` of a `format_args!`, whose parts live on from Rust 1.89 only; blanks and line ends do not matter.
fn keeps_format_args(text: &str) -> bool {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.windows(4).any(|w| w[0] == "let" && w[2] == "=" && w[3].starts_with("format_args!("))
}

/// Rust 1.85, which `Cargo.toml` promises to be enough. (`dev/check --packages 17` compiles everything with it.)
#[test]
fn no_format_args_outlives_its_statement() {
    assert!(keeps_format_args("let message =\n    format_args!(\"{x}\");"));
    assert!(!keeps_format_args("let line = format!(\"{}\", format_args!(\"{x}\"));"));
    for (name, text) in texts() {
        assert!(!keeps_format_args(&text), "{name}: put format_args! where it is used");
    }
}

/// The library is not built for tests, as its symbols resolve inside a server only: a test there would never run.
#[test]
fn no_test_is_inside_the_library() {
    for (name, text) in texts() {
        assert!(!text.contains("cfg(test)") && !text.contains("#[test]"), "{name}: put the test under tests/");
    }
}
