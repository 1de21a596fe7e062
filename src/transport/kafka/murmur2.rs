/// The partition of a key, as librdkafka's `murmur2` partitioners and Java's producer compute it.
///
/// Computed here too, because a message's partition must be known before it is handed over. A test compares the result
/// with the client's.
pub(super) fn partition_of(key: &[u8], count: i32) -> i32 {
    assert!(count > 0, "a topic without partitions cannot hold a key");
    let positive = (murmur2(key) & 0x7fff_ffff).cast_signed();
    positive % count
}

fn murmur2(data: &[u8]) -> u32 {
    const SEED: u32 = 0x9747_b28c;
    const M: u32 = 0x5bd1_e995;
    const R: u32 = 24;
    // The length wraps as in C; keys are far shorter.
    let mut hash = SEED ^ (data.len() as u32);
    let (words, tail) = data.as_chunks::<4>();
    for word in words {
        let mut k = u32::from_le_bytes(*word).wrapping_mul(M);
        k ^= k >> R;
        hash = hash.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    if !tail.is_empty() {
        let rest = tail.iter().rev().fold(0, |rest, &byte| (rest << 8) | u32::from(byte));
        hash = (hash ^ rest).wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    hash ^ (hash >> 15)
}

#[cfg(test)]
mod tests {
    use super::murmur2;

    /// The vectors of librdkafka's own test, which are those of Java's.
    #[test]
    fn hashes_as_java_does() {
        let vectors: [(&str, u32); 7] = [
            ("kafka", 0xd067_cf64),
            ("giberish123456789", 0x8f55_2b0c),
            ("1234", 0x9fc9_7b14),
            ("234", 0xe7c0_09ca),
            ("34", 0x873930da),
            ("4", 0x5a4b_5ca1),
            ("", 0x106e_08d9),
        ];
        for (key, hash) in vectors {
            assert_eq!(murmur2(key.as_bytes()), hash, "{key:?}");
        }
    }
}
