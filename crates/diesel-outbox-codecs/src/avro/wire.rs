//! The wire format of Confluent's schema registry, which others have adopted.

use diesel_outbox::CodecError;

const MAGIC: u8 = 0;

/// Where the datum begins.
pub(super) const DATUM_AT: usize = 5;

/// What comes before the datum.
pub(super) fn prefix(id: u32) -> [u8; DATUM_AT] {
    let [a, b, c, d] = id.to_be_bytes();
    [MAGIC, a, b, c, d]
}

/// The id of a payload's schema, and its datum.
pub(super) fn split(payload: &[u8]) -> Result<(u32, &[u8]), CodecError> {
    match payload {
        [MAGIC, a, b, c, d, datum @ ..] => Ok((u32::from_be_bytes([*a, *b, *c, *d]), datum)),
        [MAGIC, ..] => Err(CodecError::new(format!(
            "the payload has {} bytes, but a zero byte and a schema id of 4 bytes come before the datum",
            payload.len()
        ))),
        [first, ..] => Err(CodecError::new(format!(
            "the payload begins with byte {first}, but in the wire format of schema registries it begins with a zero byte"
        ))),
        [] => Err(CodecError::new("the payload is empty, but a zero byte and a schema id come before the datum")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_a_zero_byte_and_the_id_in_network_order() {
        assert_eq!(prefix(1), [0, 0, 0, 0, 1]);
        assert_eq!(prefix(0x0102_0304), [0, 1, 2, 3, 4]);
        assert_eq!(split(&[0, 1, 2, 3, 4, 5, 6]).expect("a payload"), (0x0102_0304, &[5, 6][..]));
        assert_eq!(split(&[0, 0, 0, 0, 1]).expect("an empty datum"), (1, &[][..]));
    }

    #[test]
    fn other_bytes_are_refused_with_what_is_wrong() {
        for (payload, wrong) in [(&b""[..], "empty"), (b"{}", "byte 123"), (b"\0\0\0\0", "has 4 bytes")] {
            let error = split(payload).expect_err("not in the format").to_string();
            assert!(error.contains(wrong), "{error}");
        }
    }
}
