//! What a client and the guest say to each other about one command, as bytes. Both forms of the channel carry these:
//! the socket that passes descriptors, and the stream. Neither end believes the other: every length is checked against
//! what is there, and every list against what it may take.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

/// What both ends speak. The first byte of the first message; another one is refused.
pub const VERSION: u8 = 1;

/// The longest message, whole: more than exec(2) takes.
pub const LONGEST: usize = 4 << 20;

/// What cannot be understood, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// It ends in the middle.
    #[error("the message ends too early")]
    Short,
    /// Something follows its end.
    #[error("the message goes on after its end")]
    Long,
    /// No such kind.
    #[error("the message has the unknown kind {0}")]
    Kind(u8),
    /// Another version of this program.
    #[error("the other end speaks version {0} and not {VERSION}")]
    Version(u8),
    /// Longer than any message may be.
    #[error("the message is longer than {LONGEST} bytes")]
    Size,
}

/// From the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Run this.
    Exec(Box<Exec>),
    /// Its terminal is set up: begin.
    Go,
    /// Send its process group a signal, as a terminal would.
    Signal(i32),
    /// End it, and all that it started.
    Kill,
}

/// A command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exec {
    /// The program and its arguments.
    pub arguments: Vec<OsString>,
    /// All of its variables.
    pub environment: Vec<(OsString, OsString)>,
    /// Where it starts, inside.
    pub directory: PathBuf,
    /// Which of the three streams are a terminal of its own; the others come as descriptors.
    pub terminals: [bool; 3],
    /// Whether what it started in the background lives on after it.
    pub keeps_background: bool,
    /// Open descriptors of each of its processes.
    pub max_descriptors: Option<u64>,
    /// Processes and threads of the sandbox, all together, seen from this command.
    pub max_processes: Option<u64>,
    /// Bytes of any one file.
    pub max_file_bytes: Option<u64>,
    /// CPU seconds of each of its processes.
    pub max_cpu_seconds: Option<u64>,
}

/// From the guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Its terminal, whose outer end comes with this, is there, and waits for [`Request::Go`].
    Terminal,
    /// It runs.
    Started,
    /// There is no such program, or it cannot be run; by the number of the error.
    NotStarted(i32),
    /// It could not be prepared.
    Failed {
        /// Which step of it.
        step: String,
        /// Why.
        message: String,
    },
    /// It has ended.
    Ended(Ended),
}

/// How a command ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// Its status as wait(2) encodes it.
    pub status: i32,
    /// User and system time of it and of all that it waited for, in microseconds.
    pub cpu_us: u64,
    /// The largest resident set of any one of these processes.
    pub peak_memory_bytes: u64,
}

impl Request {
    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        match self {
            Self::Exec(exec) => {
                out.push(1);
                count(&mut out, exec.arguments.len());
                exec.arguments.iter().for_each(|word| bytes(&mut out, word.as_bytes()));
                count(&mut out, exec.environment.len());
                for (name, value) in &exec.environment {
                    bytes(&mut out, name.as_bytes());
                    bytes(&mut out, value.as_bytes());
                }
                bytes(&mut out, exec.directory.as_os_str().as_bytes());
                let [input, output, errors] = exec.terminals.map(u8::from);
                out.push(input | output << 1 | errors << 2 | u8::from(exec.keeps_background) << 3);
                for limit in
                    [exec.max_descriptors, exec.max_processes, exec.max_file_bytes, exec.max_cpu_seconds]
                {
                    // Nothing is as large as no limit.
                    out.extend_from_slice(&limit.unwrap_or(u64::MAX).to_le_bytes());
                }
            }
            Self::Signal(signal) => {
                out.push(2);
                out.extend_from_slice(&signal.to_le_bytes());
            }
            Self::Kill => out.push(3),
            Self::Go => out.push(4),
        }
        out
    }

    /// From bytes.
    pub fn decode(message: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(message)?;
        let request = match reader.byte()? {
            1 => Self::Exec(Box::new(Exec {
                arguments: reader.list(|reader| reader.text())?,
                environment: reader.list(|reader| Ok((reader.text()?, reader.text()?)))?,
                directory: reader.text()?.into(),
                ..reader.options()?
            })),
            2 => Self::Signal(i32::from_le_bytes(reader.array()?)),
            3 => Self::Kill,
            4 => Self::Go,
            kind => return Err(WireError::Kind(kind)),
        };
        reader.end(request)
    }
}

impl Event {
    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        match self {
            Self::Started => out.push(1),
            Self::NotStarted(errno) => {
                out.push(2);
                out.extend_from_slice(&errno.to_le_bytes());
            }
            Self::Failed { step, message } => {
                out.push(3);
                bytes(&mut out, step.as_bytes());
                bytes(&mut out, message.as_bytes());
            }
            Self::Ended(ended) => {
                out.push(4);
                out.extend_from_slice(&ended.status.to_le_bytes());
                out.extend_from_slice(&ended.cpu_us.to_le_bytes());
                out.extend_from_slice(&ended.peak_memory_bytes.to_le_bytes());
            }
            Self::Terminal => out.push(5),
        }
        out
    }

    /// From bytes.
    pub fn decode(message: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(message)?;
        let event = match reader.byte()? {
            1 => Self::Started,
            2 => Self::NotStarted(i32::from_le_bytes(reader.array()?)),
            3 => Self::Failed { step: reader.words()?, message: reader.words()? },
            4 => Self::Ended(Ended {
                status: i32::from_le_bytes(reader.array()?),
                cpu_us: u64::from_le_bytes(reader.array()?),
                peak_memory_bytes: u64::from_le_bytes(reader.array()?),
            }),
            5 => Self::Terminal,
            kind => return Err(WireError::Kind(kind)),
        };
        reader.end(event)
    }
}

fn count(out: &mut Vec<u8>, length: usize) {
    out.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes());
}

fn bytes(out: &mut Vec<u8>, text: &[u8]) {
    count(out, text.len());
    out.extend_from_slice(text);
}

/// What is left of a message.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn new(message: &'a [u8]) -> Result<Self, WireError> {
        if message.len() > LONGEST {
            return Err(WireError::Size);
        }
        match message.split_first().ok_or(WireError::Short)? {
            (&VERSION, rest) => Ok(Self(rest)),
            (version, _) => Err(WireError::Version(*version)),
        }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let (first, rest) = self.0.split_first_chunk().ok_or(WireError::Short)?;
        self.0 = rest;
        Ok(*first)
    }

    fn byte(&mut self) -> Result<u8, WireError> {
        Ok(self.array::<1>()?[0])
    }

    fn count(&mut self) -> Result<usize, WireError> {
        // An item has at least its own length of four bytes, so a count beyond what is left is not believed.
        let count = u32::from_le_bytes(self.array()?) as usize;
        if count > self.0.len() { Err(WireError::Short) } else { Ok(count) }
    }

    fn bytes(&mut self) -> Result<&'a [u8], WireError> {
        let length = self.count()?;
        let (text, rest) = self.0.split_at_checked(length).ok_or(WireError::Short)?;
        self.0 = rest;
        Ok(text)
    }

    fn text(&mut self) -> Result<OsString, WireError> {
        self.bytes().map(|text| OsString::from_vec(text.to_vec()))
    }

    fn words(&mut self) -> Result<String, WireError> {
        self.bytes().map(|text| OsStr::from_bytes(text).to_string_lossy().into_owned())
    }

    fn list<T>(&mut self, item: impl Fn(&mut Self) -> Result<T, WireError>) -> Result<Vec<T>, WireError> {
        let count = self.count()?;
        let mut list = Vec::with_capacity(count.min(self.0.len() / 4));
        for _ in 0..count {
            list.push(item(self)?);
        }
        Ok(list)
    }

    fn limit(&mut self) -> Result<Option<u64>, WireError> {
        Ok(Some(u64::from_le_bytes(self.array()?)).filter(|limit| *limit != u64::MAX))
    }

    fn options(&mut self) -> Result<Exec, WireError> {
        let flags = self.byte()?;
        if flags > 0xf {
            return Err(WireError::Kind(flags));
        }
        Ok(Exec {
            terminals: [1, 2, 4].map(|flag| flags & flag != 0),
            keeps_background: flags & 8 != 0,
            max_descriptors: self.limit()?,
            max_processes: self.limit()?,
            max_file_bytes: self.limit()?,
            max_cpu_seconds: self.limit()?,
            ..Exec::default()
        })
    }

    fn end<T>(self, read: T) -> Result<T, WireError> {
        if self.0.is_empty() { Ok(read) } else { Err(WireError::Long) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exec() -> Exec {
        Exec {
            arguments: vec!["sh".into(), "".into(), OsString::from_vec(vec![0xff, b'a'])],
            environment: vec![("A".into(), "b=c".into()), ("".into(), "".into())],
            directory: "/workspace".into(),
            terminals: [true, false, true],
            keeps_background: false,
            max_descriptors: Some(0),
            max_processes: None,
            max_file_bytes: Some(u64::MAX - 1),
            max_cpu_seconds: Some(7),
        }
    }

    fn requests() -> Vec<Request> {
        vec![
            Request::Exec(Box::new(exec())),
            Request::Exec(Box::new(Exec { keeps_background: true, ..Exec::default() })),
            Request::Signal(-1),
            Request::Kill,
            Request::Go,
        ]
    }

    fn events() -> Vec<Event> {
        vec![
            Event::Terminal,
            Event::Started,
            Event::NotStarted(2),
            Event::Failed { step: "directory".into(), message: "no".into() },
            Event::Ended(Ended { status: 0x8b, cpu_us: 5, peak_memory_bytes: 1 << 40 }),
        ]
    }

    #[test]
    fn what_is_said_is_understood() {
        for request in requests() {
            assert_eq!(Request::decode(&request.encode()), Ok(request));
        }
        for event in events() {
            assert_eq!(Event::decode(&event.encode()), Ok(event));
        }
    }

    #[test]
    fn every_shorter_and_longer_message_is_refused() {
        let mut all: Vec<_> = requests().iter().map(Request::encode).collect();
        all.extend(events().iter().map(Event::encode));
        for message in all {
            let refused = |bytes: &[u8]| Request::decode(bytes).is_err() || Event::decode(bytes).is_err();
            for length in 0..message.len() {
                assert!(refused(&message[..length]), "{length} of {message:?}");
            }
            let mut longer = message;
            longer.push(0);
            assert!(Request::decode(&longer).is_err() && Event::decode(&longer).is_err());
        }
    }

    #[test]
    fn a_count_is_not_believed() {
        let message = [&[VERSION, 1][..], &u32::MAX.to_le_bytes()].concat();
        assert_eq!(Request::decode(&message), Err(WireError::Short));
        assert_eq!(Request::decode(&vec![VERSION; LONGEST + 1]), Err(WireError::Size));
        assert_eq!(Request::decode(&[VERSION + 1, 3]), Err(WireError::Version(VERSION + 1)));
    }
}
