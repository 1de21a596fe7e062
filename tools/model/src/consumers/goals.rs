//! States that some execution must reach: a model in which they cannot happen would satisfy every property.

use stateright::Property;

use super::job::{Claim, Late, Record, Step};
use super::member::MemberId;
use super::state::State;
use super::{Consumers, Progress};

/// A state to reach, and the scope it takes.
struct Goal {
    name: &'static str,
    takes: fn(&Consumers) -> bool,
    is_reached: fn(&Consumers, &State) -> bool,
}

const fn goal(name: &'static str, is_reached: fn(&Consumers, &State) -> bool) -> Goal {
    Goal { name, takes: |_| true, is_reached }
}

impl Goal {
    const fn only(self, takes: fn(&Consumers) -> bool) -> Self {
        Self { takes, ..self }
    }
}

/// Within two faults and one move; of a log with two keys and a copy.
const GOALS: &[Goal] = &[
    goal("a member that has lost its partition processes the same record as its next owner", |_, state| {
        some(state, |it| it.own.iter().all(|step| step.is_running()))
    }),
    goal("a job waits for the transaction of another member", |_, state| {
        some(state, |it| {
            it.own.iter().any(|step| matches!(step, Step::Taken { .. }))
                && it.own.iter().any(|step| step.claim().is_some())
        })
    }),
    goal("a late job is overtaken", |_, state| {
        some(state, |it| {
            it.late.iter().any(|late| matches!(late, Late::Taken { .. }))
                && it.own.iter().any(|step| step.claim().is_some())
        })
    }),
    goal("a late job commits, and the next owner is behind it", |_, state| {
        some(state, |it| it.effects == 1 && it.own.iter().any(|step| matches!(step, Step::Taken { .. })))
    }),
    goal("a record is taken again while its COMMIT has no answer", |_, state| {
        some(state, |it| {
            it.late.iter().any(|late| matches!(late, Late::Open(_)))
                && it.own.iter().any(|step| matches!(step, Step::Taken { .. }))
        })
    }),
    goal("a member crashes between COMMIT and its offset, and the other reads the record again", |_, state| {
        let is_read_again = |member: &MemberId| state.open(*member, 0).is_some_and(|open| open.next == 0);
        state.records[0].effects == 1
            && state.records[0].late == [Late::No; 2]
            && state.committed[0] == 0
            && MemberId::BOTH.iter().any(|member| is_read_again(member) && state.records[0].of(*member) == Step::Idle)
    }),
    goal("a partition is handed over with a job that runs", |model, state| {
        model.faults == state.faults_left && some(state, |it| matches!(it.late, [_, Late::Open(_)]))
    }),
    goal("a member without the partition tells the broker less than its owner", |_, state| {
        let told = MemberId::BOTH.iter().filter_map(|member| state.open(*member, 0)?.told);
        let next = MemberId::BOTH.iter().filter_map(|member| state.open(*member, 0)).map(|open| open.next).max();
        told.into_iter().any(|told| state.committed[0] == told && next.is_some_and(|next| next > told))
    }),
    goal("a copy is recognised", |model, state| {
        state.owners[0].is_some_and(|owner| {
            let next = state.open(owner, 0).map_or(0, |open| open.next);
            (0..model.log.len()).any(|record| {
                let is_copy = model.log[..record].iter().any(|other| other.message == model.log[record].message);
                is_copy && state.records[record].effects == 0 && model.offset(record) < next
            })
        })
    })
    .only(|model| model.progress != Progress::Offsets && model.ages == 0),
    goal("a record is done behind one that is not", |_, state| some(state, |it| it.own.contains(&Step::Done)))
        .only(|model| model.progress == Progress::Inbox),
    goal("two keys run at once", |_, state| {
        MemberId::BOTH.iter().any(|member| state.records.iter().filter(|it| it.of(*member).is_running()).count() > 1)
    })
    .only(|model| model.progress == Progress::Inbox),
    goal("a transaction finds another offset", |_, state| {
        MemberId::BOTH.iter().any(|member| state.open(*member, 0).is_some_and(|open| open.is_moved))
    })
    .only(|model| model.progress != Progress::Inbox),
    goal("a record that is too old is parked, and was processed", |_, state| {
        some(state, |it| it.parked && it.effects == 1)
    })
    .only(|model| model.progress == Progress::Inbox && model.ages > 0),
    goal("a record that is too old is parked, and was not processed", |model, state| {
        (0..model.log.len()).any(|record| state.records[record].parked && model.effects(state, record) == 0)
    })
    .only(|model| model.progress == Progress::Inbox && model.ages > 0),
    goal("a record is too old for the inbox, and the offset knows that it is new", |_, state| {
        some(state, |it| it.effects == 0 && it.open().any(|claim| claim == Claim::TooOld))
    })
    .only(|model| model.progress == Progress::InboxAndOffsets && model.ages > 0),
    goal("a copy that is too old has its effect again", |model, state| {
        (0..model.log.len()).any(|record| state.records[record].aged > 0 && model.effects(state, record) > 0)
    })
    .only(|model| model.progress == Progress::InboxAndOffsets && model.ages > 0),
];

pub(super) fn of(model: &Consumers) -> Vec<Property<Consumers>> {
    let within = GOALS.iter().filter(|goal| (goal.takes)(model));
    within.map(|goal| Property::sometimes(goal.name, goal.is_reached)).collect()
}

fn some(state: &State, is: impl Fn(&Record) -> bool) -> bool {
    state.records.iter().any(is)
}
