//! Records of a partition one of which may have killed the process of an earlier owner.

use std::collections::HashSet;

use super::note::{Group, Note};
use crate::limits::{CONSUMER_SUSPECTED_GROUPS_MAX, CONSUMER_SUSPECTS_MAX};

#[derive(Debug)]
pub(super) struct Suspects {
    /// They may overlap: one that ran alone may be of a group that ran before.
    groups: Vec<Group>,
    /// Those of the groups that this process has survived.
    survived: HashSet<i64>,
}

impl Suspects {
    /// What the last owner noted. The records that ran when it ended come to those that it suspected itself.
    pub(super) fn new(note: &Note) -> Self {
        let mut groups = note.suspects.clone();
        if let Some(running) = note.running {
            groups.retain(|group| (group.first, group.rows) != (running.first, running.rows));
            groups.push(running);
        }
        // The newest of those that are equal stays: otherwise nobody would find out what was in it.
        groups.reverse();
        groups.sort_by_key(|group| std::cmp::Reverse((Some(*group) == note.running, group.starts)));
        groups.truncate(CONSUMER_SUSPECTED_GROUPS_MAX);
        let mut this = Self { groups, survived: HashSet::new() };
        this.tidy();
        this
    }

    /// Forgets groups without a suspect, but for those that have run alone.
    fn tidy(&mut self) {
        let alone: HashSet<i64> = self.groups.iter().filter(|group| group.rows == 1).map(|group| group.first).collect();
        let Self { groups, survived } = self;
        let is_known =
            |group: &Group, offset| survived.contains(&offset) || (group.rows > 1 && alone.contains(&offset));
        groups.retain(|group| !(group.first..group.end()).all(|offset| is_known(group, offset)));
    }

    pub(super) fn groups(&self) -> &[Group] {
        &self.groups
    }

    fn of(&self, offset: i64) -> impl Iterator<Item = &Group> {
        let groups = self.groups.iter().filter(move |group| group.contains(offset));
        groups.filter(move |_| !self.survived.contains(&offset))
    }

    /// How often a record has killed its process when nothing ran beside it.
    pub(super) fn kills(&self, offset: i64) -> u32 {
        self.of(offset).map(|group| group.starts).max().unwrap_or(0)
    }

    /// The group that begins with a record. A suspect runs by itself.
    pub(super) fn group_from(&self, first: i64) -> Group {
        if self.contain(first) {
            return Group { first, rows: 1, starts: self.kills(first).saturating_add(1) };
        }
        let others = (1..CONSUMER_SUSPECTS_MAX).take_while(|row| !self.contain(first.saturating_add(*row)));
        Group { first, rows: others.last().unwrap_or(0) + 1, starts: 0 }
    }

    /// Notes that the process lives, although the handler of this record ran.
    pub(super) fn survive(&mut self, offset: i64) {
        if !self.contain(offset) {
            return;
        }
        self.survived.insert(offset);
        self.tidy();
    }

    /// Forgets all below an offset: nothing of it is left to run.
    pub(super) fn pass(&mut self, next: i64) {
        if self.groups.iter().any(|group| group.first < next) {
            self.groups = self.groups.iter().filter_map(|group| group.within(next, i64::MAX)).collect();
            self.survived.retain(|offset| *offset >= next);
            self.tidy();
        }
    }

    pub(super) fn contain(&self, offset: i64) -> bool {
        self.of(offset).next().is_some()
    }

    /// Whether one of them lies behind an offset.
    pub(super) fn reach_beyond(&self, offset: i64) -> bool {
        self.groups.iter().any(|group| group.end() - 1 > offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn suspects(groups: &[(i64, i64, u32)], running: Option<(i64, i64, u32)>) -> Suspects {
        let group = |&(first, rows, starts): &(i64, i64, u32)| Group { first, rows, starts };
        let suspects = groups.iter().map(group).collect();
        Suspects::new(&Note { unclean: 3, suspects, running: running.as_ref().map(group), writer: 1 })
    }

    #[test]
    fn what_ran_at_the_end_comes_to_what_was_suspected_before() {
        let suspects = suspects(&[(0, 32, 0), (40, 1, 2)], Some((5, 1, 1)));
        assert_eq!([4, 5, 6, 39, 40].map(|offset| suspects.kills(offset)), [0, 1, 0, 0, 2]);
        assert_eq!(suspects.group_from(5), Group { first: 5, rows: 1, starts: 2 });
        assert_eq!(suspects.group_from(32), Group { first: 32, rows: 8, starts: 0 });
        assert_eq!(suspects.group_from(41), Group { first: 41, rows: CONSUMER_SUSPECTS_MAX, starts: 0 });
    }

    #[test]
    fn a_record_is_suspected_once() {
        let suspects = suspects(&[(5, 1, 1)], Some((5, 1, 2)));
        assert_eq!((suspects.groups().len(), suspects.kills(5)), (1, 2));
    }

    #[test]
    fn one_that_was_survived_is_none_any_more() {
        let mut suspects = suspects(&[], Some((0, 3, 0)));
        suspects.survive(1);
        assert_eq!(suspects.group_from(1).rows, 1, "the next one is a suspect");
        assert_eq!(suspects.group_from(1).starts, 0);
        suspects.survive(0);
        assert!(suspects.reach_beyond(1) && suspects.contain(2));
        suspects.survive(2);
        assert!(suspects.groups().is_empty());
    }

    #[test]
    fn what_lies_behind_is_forgotten() {
        let mut suspects = suspects(&[(40, 1, 3)], Some((0, 32, 0)));
        suspects.pass(30);
        assert_eq!(suspects.kills(40), 3);
        suspects.pass(32);
        assert_eq!(suspects.groups().len(), 1);
    }

    #[test]
    fn a_group_whose_suspects_have_all_run_alone_is_forgotten() {
        let mut suspects = suspects(&[(0, 3, 0)], Some((1, 1, 3)));
        suspects.survive(0);
        assert_eq!(suspects.groups().len(), 2);
        suspects.survive(2);
        assert_eq!(suspects.groups(), [Group { first: 1, rows: 1, starts: 3 }]);
    }

    #[test]
    fn there_is_a_limit_on_groups_and_the_worst_stay() {
        let many: Vec<_> = (0..100).map(|number| (number, 1, u32::from(number == 90))).collect();
        let suspects = suspects(&many, Some((500, 32, 0)));
        assert_eq!((suspects.groups().len(), suspects.kills(90)), (CONSUMER_SUSPECTED_GROUPS_MAX, 1));
        assert!(suspects.contain(531), "what ran when the last owner ended is the first to look at");
    }
}
