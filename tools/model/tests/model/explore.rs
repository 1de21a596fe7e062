//! Runs the checker, and says in lines that can be read what it found.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Debug;
use std::hash::Hash;
use std::num::NonZero;
use std::path::Path;
use std::thread::available_parallelism;
use std::time::Instant;

use stateright::{Checker, HasDiscoveries, Model};

/// A model whose states stand for others that differ in names only.
pub(crate) trait Symmetric:
    Model<State: Hash + Eq + Copy + Debug + Send + Sync, Action: Clone + PartialEq + Debug>
{
    fn representative(state: &Self::State) -> Self::State;
}

/// What a run of the checker found: each property that was broken, or each goal that was reached, with its steps.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) states: usize,
    pub(crate) paths: HashMap<&'static str, Vec<String>>,
}

/// Checks every state within the scope, or until `finish_when` is found.
pub(crate) fn check<M: Symmetric + Send + Sync + 'static>(name: &str, model: M, finish_when: HasDiscoveries) -> Found {
    let threads = available_parallelism().map_or(1, NonZero::get);
    let start = Instant::now();
    let checker = model.checker().threads(threads).symmetry_fn(M::representative).finish_when(finish_when);
    let checker = checker.spawn_dfs().join();
    let states = checker.unique_state_count();
    let (depth, took) = (checker.max_depth(), start.elapsed());
    eprintln!("{name}: {states} states, {} steps, depth {depth}, {took:.1?}", checker.state_count());
    let steps = |actions: Vec<M::Action>| actions.iter().map(|action| format!("{action:?}")).collect();
    let paths = checker.discoveries().into_iter().map(|(name, path)| (name, steps(path.into_actions()))).collect();
    Found { states, paths }
}

/// Checks that every property holds in every state of the scope; returns how many states there were.
#[track_caller]
pub(crate) fn assert_holds<M: Symmetric + Send + Sync + 'static>(name: &str, model: M) -> usize {
    let found = check(name, model, HasDiscoveries::AnyFailures);
    for (property, steps) in &found.paths {
        eprintln!("broken: {property}");
        steps.iter().for_each(|step| eprintln!("    {step}"));
    }
    assert!(found.paths.is_empty(), "{name}: the steps to what was broken are above");
    found.states
}

/// Checks that every goal of the scope is reached.
#[track_caller]
pub(crate) fn assert_reaches_its_goals<M: Symmetric + Clone + Send + Sync + 'static>(name: &str, model: M) {
    let found = check(name, model.clone(), HasDiscoveries::All);
    let goals = model.properties();
    assert!(!goals.is_empty(), "{name} has no goals");
    let missed: Vec<_> = goals.iter().map(|goal| goal.name).filter(|goal| !found.paths.contains_key(goal)).collect();
    assert!(missed.is_empty(), "{name} never reaches {missed:#?}");
}

/// Checks that the checker finds `broken`.
#[track_caller]
pub(crate) fn assert_breaks<M: Symmetric + Send + Sync + 'static>(name: &str, model: M, broken: &'static str) {
    let found = check(name, model, HasDiscoveries::AllOf([broken].into()));
    let Some(steps) = found.paths.get(broken) else {
        panic!("{name} does not break \"{broken}\", but {:?}", found.paths.keys());
    };
    steps.iter().for_each(|step| eprintln!("    {step}"));
}

/// Visits every state once, and panics where a run comes back to a state it has been in.
///
/// Only without a cycle does the checker's "eventually" say what it seems to say.
pub(crate) fn visit_acyclic<M: Symmetric>(model: &M, mut visit: impl FnMut(&M::State, &[M::Action])) {
    let mut on_path = HashMap::new();
    let mut path = Vec::new();
    let mut todo: Vec<_> = model.init_states().into_iter().map(|state| Visit::Enter(None, state)).collect();
    while let Some(next) = todo.pop() {
        let (action, state) = match next {
            Visit::Enter(action, state) => (action, state),
            Visit::Leave(state) => {
                on_path.insert(state, false);
                path.pop();
                continue;
            }
        };
        match on_path.insert(M::representative(&state), true) {
            Some(true) => panic!("by {action:?} a run comes back to {state:#?}, after {path:#?}"),
            Some(false) => drop(on_path.insert(M::representative(&state), false)),
            None => {
                path.push(action);
                todo.push(Visit::Leave(M::representative(&state)));
                let mut actions = Vec::new();
                model.actions(&state, &mut actions);
                visit(&state, &actions);
                let next =
                    |action: M::Action| Some(Visit::Enter(Some(action.clone()), model.next_state(&state, action)?));
                todo.extend(actions.into_iter().filter_map(next));
            }
        }
    }
}

/// The name of a step.
pub(crate) fn name(action: &impl Debug) -> String {
    let text = format!("{action:?}");
    text.split(' ').next().unwrap_or_default().to_owned()
}

/// That the steps taken, each with the files it mirrors, are all that `source` declares, and that the files are there.
#[track_caller]
pub(crate) fn assert_covered<'a>(source: &str, taken: impl Iterator<Item = (&'a str, &'static [&'static str])>) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut names = BTreeSet::new();
    for (name, files) in taken {
        for file in files {
            assert!(root.join(file).is_file(), "{name} mirrors {file}, which is not there");
        }
        names.insert(name);
    }
    let declared = source.lines().skip_while(|line| !line.starts_with("pub enum")).take_while(|line| *line != "}");
    let declared = declared.filter_map(|line| line.strip_prefix("    ")?.split([' ', ',']).next());
    let declared: BTreeSet<&str> = declared.filter(|name| name.starts_with(char::is_uppercase)).collect();
    assert_eq!(names, declared);
}

/// A step of a depth-first search.
enum Visit<A, S> {
    Enter(Option<A>, S),
    Leave(S),
}
