//! Bounds what a command says. Memory stays within the limit whatever comes; what is dropped is counted.

use std::collections::VecDeque;

use pinfold_core::outcome::Said;

/// Keeps the beginning and the end of a stream, within a limit.
#[derive(Debug)]
pub struct OutputLimiter {
    limit: usize,
    /// Everything, until the limit is passed; then its first half.
    head: Vec<u8>,
    /// The last half of the limit, once it is passed.
    tail: VecDeque<u8>,
    total: u64,
}

impl OutputLimiter {
    /// Keeps at most `limit` bytes.
    pub fn new(limit: u64) -> Self {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        Self { limit, head: Vec::new(), tail: VecDeque::new(), total: 0 }
    }

    /// Takes what came; false once more has come than may be kept.
    pub fn append(&mut self, bytes: &[u8]) -> bool {
        let fits = self.limit - self.head.len();
        self.total += bytes.len() as u64;
        if self.tail.is_empty() && bytes.len() <= fits {
            self.head.extend_from_slice(bytes);
            return true;
        }
        let half = self.limit / 2;
        if self.tail.is_empty() {
            self.head.extend_from_slice(&bytes[..fits]);
            self.tail.extend(&self.head[half..]);
            self.head.truncate(half);
            self.keep_last(&bytes[fits..]);
        } else {
            self.keep_last(bytes);
        }
        false
    }

    fn keep_last(&mut self, bytes: &[u8]) {
        let room = self.limit - self.limit / 2;
        let bytes = &bytes[bytes.len().saturating_sub(room)..];
        let over = (self.tail.len() + bytes.len()).saturating_sub(room);
        self.tail.drain(..over);
        self.tail.extend(bytes);
    }

    /// How many bytes came.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Whether anything was dropped.
    pub fn was_truncated(&self) -> bool {
        self.total > (self.head.len() + self.tail.len()) as u64
    }

    /// What was kept, and how much was not.
    pub fn into_said(self) -> Said {
        let mut bytes = self.head;
        bytes.extend(self.tail);
        Said { dropped: self.total - bytes.len() as u64, bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(limit: u64, chunks: &[&[u8]]) -> (Said, bool) {
        let mut limiter = OutputLimiter::new(limit);
        // Every chunk comes, also those after the limit.
        let refused = chunks.iter().filter(|chunk| !limiter.append(chunk)).count();
        let within = refused == 0;
        (limiter.into_said(), within)
    }

    #[test]
    fn everything_is_kept_up_to_the_limit() {
        let (said, within) = said(6, &[b"abc", b"", b"def"]);
        assert_eq!((said.bytes.as_slice(), said.dropped, within), (&b"abcdef"[..], 0, true));
    }

    #[test]
    fn beyond_the_limit_head_and_tail_are_kept_and_the_rest_counted() {
        for chunks in
            [&[&b"abcdefghij"[..]][..], &[b"abcdefg", b"hij"], &[b"a", b"bcdef", b"g", b"h", b"i", b"j"]]
        {
            let (said, within) = said(6, chunks);
            assert_eq!(
                (said.bytes.as_slice(), said.dropped, within),
                (&b"abchij"[..], 4, false),
                "{chunks:?}"
            );
        }
    }

    #[test]
    fn memory_is_bounded_whatever_comes() {
        let mut limiter = OutputLimiter::new(1000);
        for _ in 0..10_000 {
            limiter.append(&[b'y'; 4096]);
        }
        assert!(limiter.head.capacity() <= 8192 && limiter.tail.capacity() <= 8192);
        assert!(limiter.was_truncated());
        let said = limiter.into_said();
        assert_eq!(said.bytes.len() as u64 + said.dropped, 40_960_000);
    }

    #[test]
    fn a_limit_of_one_works() {
        let (said, _) = said(1, &[b"a", b"b", b"c"]);
        assert_eq!((said.bytes.as_slice(), said.dropped), (&b"c"[..], 2));
    }
}
