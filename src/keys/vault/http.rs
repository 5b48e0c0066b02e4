//! One request to the key server and its answer. Plain Rust on top of the HTTP client: no thread is started, no
//! proxy of the environment is used, connections are not kept, and what went through buffers is overwritten as far as
//! the client lets us at it.

use std::io::Read;
use std::net::ToSocketAddrs;
use std::path::Path;
use std::time::Duration;
use std::{ffi::OsStr, fs, io, os::unix::ffi::OsStrExt};

use serde_json::Value;
use ureq::config::Config as ClientConfig;
use ureq::http::{header, HeaderValue, Method, Request, Uri};
use ureq::tls::{parse_pem, PemItem, RootCerts, TlsConfig, TlsProvider};
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, NativeTlsConnector, NextTimeout, TcpConnector, Transport,
};
use ureq::{Agent, Error};
use zeroize::{Zeroize, Zeroizing};

use super::config::Config;
use super::signals::SignalsBlocked;
use crate::keys::provider::Problem;
use crate::keys::secret_file::reason;
use crate::pg::error::CONFIG_FILE_ERROR;

/// An answer may have so many bytes.
const ANSWER_MAX: usize = 256 * 1024;
const BUFFER: usize = 16 * 1024;

/// Why there is no answer that helps.
pub enum Failure {
    /// There is no connection, or it broke.
    Network(String),
    /// Time was up.
    Timeout,
    /// The connection could not be secured.
    Tls(String),
    /// What came was not an answer of a key server.
    Malformed(String),
    /// The server refused.
    Refused(Answer),
    /// The login failed; why.
    Login(Box<Failure>),
    /// Nothing was sent.
    Problem(Problem),
    /// The user or the server ends the statement.
    Canceled,
}

/// An answer of the key server. Its texts are overwritten when it goes.
pub struct Answer {
    pub status: u16,
    content: Value,
    location: Option<String>,
}

impl Answer {
    /// A member of what is asked for, or of `auth` after a login, taken out.
    pub fn take(&mut self, part: &str, name: &str) -> Option<Zeroizing<String>> {
        match self.content.get_mut(part)?.get_mut(name)?.take() {
            Value::String(text) => Some(Zeroizing::new(text)),
            _ => None,
        }
    }

    /// The part `data` of the answer.
    pub fn data(&self) -> &Value {
        &self.content["data"]
    }

    /// What the server says that is wrong.
    pub fn errors(&self) -> String {
        if let Value::String(text) = &self.content {
            return text.clone();
        }
        let errors = self.content["errors"].as_array().map(Vec::as_slice).unwrap_or_default();
        let texts: Vec<&str> = errors.iter().filter_map(Value::as_str).collect();
        texts.join("; ")
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        scrub(&mut self.content);
    }
}

fn scrub(value: &mut Value) {
    match value {
        Value::String(text) => text.zeroize(),
        Value::Array(values) => values.iter_mut().for_each(scrub),
        Value::Object(members) => members.values_mut().for_each(scrub),
        _ => {}
    }
}

/// What is asked of the server.
pub struct Ask<'a> {
    /// Below `/v1/`.
    pub path: &'a str,
    /// JSON to POST; None to GET.
    pub body: Option<&'a str>,
    pub namespace: &'a str,
    pub token: Option<&'a str>,
}

/// The way to the server.
pub struct Http {
    url: String,
    tls: TlsConfig,
}

impl Http {
    pub fn new(config: &Config) -> Result<Http, Problem> {
        let roots = match config.ca_cert.as_slice() {
            [] => RootCerts::PlatformVerifier,
            path => RootCerts::from(certificates(path)?),
        };
        let tls = TlsConfig::builder().provider(TlsProvider::NativeTls).root_certs(roots).build();
        Ok(Http { url: config.url.clone(), tls })
    }

    /// Sends the request and waits for the answer, whatever its status. A standby node may send us to the active one:
    /// the same request goes there, once, but never from https to http.
    pub fn exchange(&self, ask: &Ask<'_>, time: Duration) -> Result<Answer, Failure> {
        let url = format!("{}/v1/{}", self.url, ask.path);
        let started = std::time::Instant::now();
        let answer = self.send(ask, &url, time)?;
        let Some(location) = answer.location.as_deref().filter(|_| matches!(answer.status, 301 | 302 | 307 | 308))
        else {
            return Ok(answer);
        };
        let target = if location.starts_with('/') {
            let host = url.find("://").and_then(|at| url[at + 3..].find('/').map(|n| at + 3 + n)).unwrap_or(url.len());
            format!("{}{location}", &url[..host])
        } else {
            location.to_owned()
        };
        if !(target.starts_with("https://") || target.starts_with("http://") && url.starts_with("http://")) {
            return Err(Failure::Malformed("it redirected to an address that is not secure".into()));
        }
        let time = time.checked_sub(started.elapsed()).ok_or(Failure::Timeout)?;
        self.send(ask, &target, time)
    }

    fn send(&self, ask: &Ask<'_>, url: &str, time: Duration) -> Result<Answer, Failure> {
        let _blocked = SignalsBlocked::new();
        let result = self.send_blocked(ask, url, time);
        // PostgreSQL's own SSL code looks at OpenSSL's queue of errors
        // SAFETY: no arguments; the queue belongs to the thread.
        unsafe { openssl_sys::ERR_clear_error() };
        result
    }

    fn send_blocked(&self, ask: &Ask<'_>, url: &str, time: Duration) -> Result<Answer, Failure> {
        let method = if ask.body.is_some() { Method::POST } else { Method::GET };
        let mut request = Request::builder().method(method).uri(url).header("X-Vault-Request", "true");
        if !ask.namespace.is_empty() {
            request = request.header("X-Vault-Namespace", ask.namespace);
        }
        if let Some(token) = ask.token {
            let mut value = HeaderValue::from_str(token).map_err(|_| bad_token())?;
            value.set_sensitive(true);
            request = request.header("X-Vault-Token", value);
        }
        let agent = Agent::with_parts(
            self.client_config(time),
            ().chain(TcpConnector::default()).chain(NativeTlsConnector::default()).chain(Scrubber),
            PlainResolver,
        );
        let malformed = |e: ureq::http::Error| Failure::Malformed(e.to_string());
        let response = match ask.body {
            Some(body) => agent.run(
                request.header(header::CONTENT_TYPE, "application/json").body(body.as_bytes()).map_err(malformed)?,
            ),
            None => agent.run(request.body(()).map_err(malformed)?),
        };
        let mut response = response.map_err(failure)?;
        let status = response.status().as_u16();
        let location = response.headers().get(header::LOCATION).and_then(|v| v.to_str().ok()).map(str::to_owned);
        let content = read_json(response.body_mut().as_reader(), status)?;
        Ok(Answer { status, content, location })
    }

    fn client_config(&self, time: Duration) -> ClientConfig {
        Agent::config_builder()
            .timeout_global(Some(time))
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .proxy(None)
            .max_idle_connections(0)
            .input_buffer_size(BUFFER)
            .output_buffer_size(BUFFER)
            .user_agent("pg_vault_tde")
            .tls_config(self.tls.clone())
            .build()
    }
}

/// Reads the answer to its end. What is not JSON matters only where an answer was expected.
fn read_json(mut reader: impl Read, status: u16) -> Result<Value, Failure> {
    let mut content = Zeroizing::new(vec![0; ANSWER_MAX]);
    let mut len = 0;
    loop {
        match reader.read(&mut content[len..]) {
            Ok(0) if len == content.len() => return Err(Failure::Malformed("it answered too much".into())),
            Ok(0) => break,
            Ok(n) => len += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(failure(Error::from(e))),
        }
    }
    match serde_json::from_slice(&content[..len]) {
        Ok(value) => Ok(value),
        Err(_) if len == 0 => Ok(Value::Null),
        // a proxy perhaps, or a port of another kind
        Err(_) if !(200..300).contains(&status) => Ok(Value::String(String::from_utf8_lossy(&content[..len]).into())),
        Err(_) => Err(Failure::Malformed("its answer is not JSON".into())),
    }
}

pub fn bad_token() -> Failure {
    Failure::Problem(Problem::new(CONFIG_FILE_ERROR, "the token for the key server holds characters that it may not"))
}

fn failure(error: Error) -> Failure {
    match error {
        Error::Timeout(_) => Failure::Timeout,
        Error::Io(e) if e.kind() == io::ErrorKind::TimedOut => Failure::Timeout,
        Error::Io(e) => match e.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) {
            Some(Error::Timeout(_)) => Failure::Timeout,
            _ => Failure::Network(reason(&e)),
        },
        Error::HostNotFound => Failure::Network("host not found".into()),
        Error::ConnectionFailed => Failure::Network("connection failed".into()),
        Error::NativeTls(e) => Failure::Tls(e.to_string()),
        Error::Tls(text) => Failure::Tls(text.to_owned()),
        other => Failure::Malformed(other.to_string()),
    }
}

fn certificates(path: &[u8]) -> Result<Vec<ureq::tls::Certificate<'static>>, Problem> {
    const HINT: &str =
        "Set \"pg_vault_tde.vault_ca_cert\" to a file with the CA certificates of the key server, in PEM format.";
    let shown = String::from_utf8_lossy(path);
    let content = fs::read(Path::new(OsStr::from_bytes(path))).map_err(|e| {
        Problem::new(CONFIG_FILE_ERROR, format!("could not read CA file \"{shown}\": {}", reason(&e))).hint(HINT)
    })?;
    let certificates: Vec<_> = parse_pem(&content)
        .filter_map(|item| match item {
            Ok(PemItem::Certificate(certificate)) => Some(certificate),
            _ => None,
        })
        .collect();
    // the client passes over one that it cannot read
    if certificates.is_empty() || certificates.iter().any(|c| openssl::x509::X509::from_der(c.der()).is_err()) {
        return Err(
            Problem::new(CONFIG_FILE_ERROR, format!("CA file \"{shown}\" does not hold certificates")).hint(HINT)
        );
    }
    Ok(certificates)
}

/// Looks names up without a thread, which the client would start to be able to give up: the resolver has its own
/// time-outs.
#[derive(Debug)]
struct PlainResolver;

impl Resolver for PlainResolver {
    fn resolve(&self, uri: &Uri, _: &ClientConfig, _: NextTimeout) -> Result<ResolvedSocketAddrs, Error> {
        let host = uri.host().unwrap_or_default();
        let host = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
        let port = uri.port_u16().unwrap_or(if uri.scheme_str() == Some("https") { 443 } else { 80 });
        let mut found = self.empty();
        for address in (host, port).to_socket_addrs()?.take(16) {
            found.push(address);
        }
        if found.is_empty() {
            return Err(Error::HostNotFound);
        }
        Ok(found)
    }
}

/// Overwrites a connection's buffers when it ends: tokens and data keys went through them.
#[derive(Debug)]
struct Scrubber;

impl<In: Transport> Connector<In> for Scrubber {
    type Out = Scrubbed<In>;

    fn connect(&self, _: &ConnectionDetails<'_>, chained: Option<In>) -> Result<Option<Self::Out>, Error> {
        Ok(chained.map(Scrubbed))
    }
}

#[derive(Debug)]
struct Scrubbed<T: Transport>(T);

impl<T: Transport> Transport for Scrubbed<T> {
    fn buffers(&mut self) -> &mut dyn Buffers {
        self.0.buffers()
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        self.0.transmit_output(amount, timeout)
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        self.0.await_input(timeout)
    }

    fn is_open(&mut self) -> bool {
        self.0.is_open()
    }

    fn is_tls(&self) -> bool {
        self.0.is_tls()
    }
}

impl<T: Transport> Drop for Scrubbed<T> {
    fn drop(&mut self) {
        let buffers = self.0.buffers();
        let left = buffers.input().len();
        buffers.input_consume(left); // so that the whole buffer is free
        buffers.input_append_buf().zeroize();
        buffers.output().zeroize();
    }
}
