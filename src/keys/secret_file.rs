//! Files that hold a secret: the key file, the key server's token and secret id. Read anew each time, which is seldom, so
//! that a secret is in memory for moments only and a file that was put right is used at once.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use super::provider::Problem;
use crate::pg::error::CONFIG_FILE_ERROR;

/// Permission bits that such a file may have.
const MODE_ALLOWED: u32 = 0o600;

/// A file that only the server's user may read.
#[derive(Clone, Copy)]
pub struct SecretFile<'a> {
    /// What it is in a message: "key file".
    pub kind: &'static str,
    /// The configuration parameter that names it.
    pub setting: &'static str,
    /// What the setting should name, for a hint.
    pub hint: &'static str,
    /// The path. A relative one is relative to the data directory, which is each server process's own.
    pub path: &'a [u8],
}

impl SecretFile<'_> {
    /// Reads it to `buffer`, up to the end of either, and returns the length. Refuses a file that others than the server's
    /// user can read or change.
    pub fn read(&self, buffer: &mut [u8]) -> Result<usize, Problem> {
        if self.path.is_empty() {
            return Err(self.problem(format!("\"{}\" is not set", self.setting)));
        }
        let failed = |what: &str, e: &io::Error| {
            self.problem(format!("could not {what} {} \"{}\": {}", self.kind, self.shown(), reason(e)))
        };
        // not to wait for a writer if it is a named pipe
        let mut file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(Path::new(OsStr::from_bytes(self.path)))
            .map_err(|e| failed("open", &e))?;
        self.check(&file.metadata().map_err(|e| failed("stat", &e))?)?;
        read_all(&mut file, buffer).map_err(|e| failed("read", &e))
    }

    /// A problem with it, with the hint.
    pub fn problem(&self, message: String) -> Problem {
        Problem::new(CONFIG_FILE_ERROR, message).hint(self.hint)
    }

    /// The path in a message.
    pub fn shown(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(self.path)
    }

    fn check(&self, about: &Metadata) -> Result<(), Problem> {
        let (kind, path, setting) = (self.kind, self.shown(), self.setting);
        if !about.is_file() {
            return Err(self.problem(format!("{kind} \"{path}\" is not a regular file")));
        }
        // SAFETY: no arguments, never fails.
        let server_user = unsafe { libc::geteuid() };
        if about.uid() != server_user {
            return Err(Problem::new(CONFIG_FILE_ERROR, format!("{kind} \"{path}\" belongs to another user"))
                .detail(format!("Its owner is user {}; the server runs as user {server_user}.", about.uid()))
                .hint(format!(
                    "Make the server's operating-system user its owner, or set \"{setting}\" to another file."
                )));
        }
        let mode = about.mode() & 0o7777;
        if mode & !MODE_ALLOWED != 0 {
            return Err(Problem::new(CONFIG_FILE_ERROR, format!("permissions of {kind} \"{path}\" are too wide"))
                .detail(format!("Its mode is {mode:04o}; it must be 0600 or stricter."))
                .hint(format!("Run \"chmod 0600\" on the file that \"{setting}\" names.")));
        }
        Ok(())
    }
}

/// Reads up to the end of the file or of `buffer`.
fn read_all(file: &mut File, buffer: &mut [u8]) -> io::Result<usize> {
    let mut len = 0;
    while len < buffer.len() {
        match file.read(&mut buffer[len..]) {
            Ok(0) => break,
            Ok(n) => len += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(len)
}

/// An operating-system error as strerror() says it.
pub fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}
