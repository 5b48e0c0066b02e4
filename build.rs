//! Makes the bindings of the server that `PG_CONFIG` names, and compiles the C shim against the same headers.
//!
//! Environment: `PG_CONFIG` (default `pg_config`). Emits one of `cfg(pg17)`, `cfg(pg18)`, `cfg(pg19)`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

const BINDINGS_LIST: &str = "src/pg/bindings.txt";
const SHIM: &str = "src/pg/shim.c";
const LAYOUT: &str = "tests/layout/layout.c";

fn main() {
    for file in [BINDINGS_LIST, SHIM, LAYOUT, "src/pg/shim.h", "wrapper.h", "build.rs"] {
        println!("cargo:rerun-if-changed={file}");
    }
    println!("cargo:rerun-if-env-changed=PG_CONFIG");

    let pg_config = env::var("PG_CONFIG").unwrap_or_else(|_| "pg_config".into());
    let major = major_of(&ask(&pg_config, "--version"));
    assert!((17..=19).contains(&major), "PostgreSQL {major} is not supported; 17 to 19 are");
    println!("cargo:rustc-cfg=pg{major}");

    let include = ask(&pg_config, "--includedir-server");
    println!("cargo:rerun-if-changed={include}/pg_config.h");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    generate_bindings(&include, &out);
    compile(&include, "pgv_shim", &[Path::new(SHIM), &out.join("static_fns.c")]);
    compile(&include, "pgv_layout", &[Path::new(LAYOUT)]);
}

/// What `pg_config FLAG` prints.
fn ask(pg_config: &str, flag: &str) -> String {
    let output = Command::new(pg_config)
        .arg(flag)
        .output()
        .unwrap_or_else(|e| panic!("cannot run \"{pg_config}\" (set PG_CONFIG): {e}"));
    assert!(output.status.success(), "\"{pg_config} {flag}\" failed");
    String::from_utf8(output.stdout).expect("pg_config prints UTF-8").trim().to_owned()
}

/// 18 of "PostgreSQL 18.6 (Debian 18.6-3)" and of "PostgreSQL 19rc1".
fn major_of(version: &str) -> u32 {
    let number = version.trim_start_matches("PostgreSQL ");
    let digits: String = number.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or_else(|_| panic!("no major version in \"{version}\""))
}

fn generate_bindings(include: &str, out: &Path) {
    let mut builder = bindgen::Builder::default()
        .header("wrapper.h")
        .clang_args([&format!("-I{include}"), "-I.", "-D_GNU_SOURCE"])
        .default_enum_style(bindgen::EnumVariation::Consts)
        .prepend_enum_name(false)
        .derive_debug(false)
        .generate_comments(false)
        .use_core()
        .override_abi(bindgen::Abi::CUnwind, ".*")
        .wrap_static_fns(true)
        .wrap_static_fns_path(out.join("static_fns"))
        // long double members of libc types that nothing here needs
        .blocklist_type("max_align_t");
    let list = fs::read_to_string(BINDINGS_LIST).expect("the list of bindings is readable");
    for item in list.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#')) {
        builder = builder.allowlist_item(item);
    }
    builder
        .generate()
        .expect("bindgen can read the server's headers")
        .write_to_file(out.join("bindings.rs"))
        .expect("OUT_DIR is writable");
}

/// Compiles C files with `cc` itself rather than with the flags that pg_config reports, which may name options that
/// the machine's compiler does not know.
fn compile(include: &str, library: &str, files: &[&Path]) {
    let mut build = cc::Build::new();
    build.include(include).include(".").include("src/pg").define("_GNU_SOURCE", None);
    // an ERROR may longjmp, and a panic unwind, through these frames
    build.flag("-fexceptions").flag("-fno-strict-aliasing").flag("-fwrapv").warnings(false);
    build.files(files).compile(library);
}
