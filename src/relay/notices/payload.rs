//! The content of a notice: `lane:id,lane:id topic`, on as many lines as needed; or `=` and the name of the node that
//! tests its own connection.

use std::sync::Arc;

use crate::limits::{NOTICE_BYTES_MAX, NOTICE_LANES_MAX};

/// Lanes with new rows, each with the lowest id if it is known.
pub(crate) type LaneIds = Vec<(u16, Option<i64>)>;

/// Encodes into as few notices as possible.
pub(crate) fn encode(commits: &[(Arc<str>, LaneIds)]) -> Vec<String> {
    let mut notices: Vec<String> = Vec::new();
    let lines = commits.iter().flat_map(|(topic, lanes)| lanes.chunks(NOTICE_LANES_MAX).map(|some| line(topic, some)));
    for line in lines {
        match notices.last_mut() {
            Some(last) if last.len() + 1 + line.len() <= NOTICE_BYTES_MAX => {
                last.push('\n');
                last.push_str(&line);
            }
            _ => notices.push(line),
        }
    }
    notices
}

fn line(topic: &str, lanes: &[(u16, Option<i64>)]) -> String {
    let lane = |(lane, id): &(u16, Option<i64>)| id.map_or_else(|| lane.to_string(), |id| format!("{lane}:{id}"));
    let lanes: Vec<String> = lanes.iter().map(lane).collect();
    format!("{} {topic}", lanes.join(","))
}

/// The readable lines. Others come from another release or a stranger, and are left to the poll.
pub(crate) fn decode(notice: &str) -> impl Iterator<Item = (&str, LaneIds)> {
    notice.lines().filter_map(|line| {
        let (lanes, topic) = line.split_once(' ')?;
        let lane = |text: &str| match text.split_once(':') {
            Some((lane, id)) => Some((lane.parse().ok()?, Some(id.parse().ok()?))),
            None => Some((text.parse().ok()?, None)),
        };
        Some((topic, lanes.split(',').map(lane).collect::<Option<LaneIds>>()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{LANES_MAX, TOPIC_CHARS_MAX};

    fn reread(notices: &[String]) -> Vec<(String, u16, Option<i64>)> {
        let lines = notices.iter().flat_map(|notice| decode(notice));
        lines.flat_map(|(topic, lanes)| lanes.into_iter().map(|(lane, id)| (topic.to_owned(), lane, id))).collect()
    }

    #[test]
    fn a_written_notice_is_read_back() {
        let commits = [
            ("two words".into(), vec![(0, Some(1)), (15, None), (1_023, Some(i64::MAX))]),
            ("b".into(), vec![(7, Some(-3))]),
        ];
        let notices = encode(&commits);
        assert_eq!(notices, ["0:1,15,1023:9223372036854775807 two words\n7:-3 b"]);
        let read: Vec<_> = decode(&notices[0]).map(|(topic, lanes)| (Arc::from(topic), lanes)).collect();
        assert_eq!(read, commits);
    }

    #[test]
    fn a_burst_fits_into_notices_that_the_server_accepts() {
        let topic: Arc<str> = "t".repeat(TOPIC_CHARS_MAX).into();
        let lanes: LaneIds = (0..LANES_MAX).map(|lane| (u16::MAX - lane, Some(i64::MIN))).collect();
        let commits = [(Arc::clone(&topic), lanes.clone()), ("other".into(), lanes)];
        let notices = encode(&commits);
        assert!(notices.iter().all(|notice| notice.len() <= NOTICE_BYTES_MAX), "too long for the server");
        assert!(notices.len() <= 2 * usize::from(LANES_MAX).div_ceil(NOTICE_LANES_MAX), "{}", notices.len());
        assert_eq!(reread(&notices).len(), 2 * usize::from(LANES_MAX));
    }

    #[test]
    fn notices_that_cannot_be_read_are_skipped() {
        for strange in ["", "=someone", "1:2", "x topic", "1:2:3 topic", "70000 topic", "1,,2 topic", ": t"] {
            assert_eq!(decode(strange).count(), 0, "{strange:?}");
        }
        assert_eq!(reread(&["strange\n4 topic".to_owned()]), [("topic".to_owned(), 4, None)]);
    }
}
