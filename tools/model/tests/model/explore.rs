//! Runs the checker, and prints what it found in readable lines.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Debug;
use std::hash::Hash;
use std::num::NonZero;
use std::path::Path;
use std::thread::available_parallelism;
use std::time::Instant;

use stateright::{Checker, HasDiscoveries, Model};

/// A model in which one state represents others that differ only in names.
pub(crate) trait Symmetric:
    Model<State: Hash + Eq + Copy + Debug + Send + Sync, Action: Clone + PartialEq + Debug>
{
    fn representative(state: &Self::State) -> Self::State;
}

/// What the checker found: each broken property or reached goal, with the steps to it.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) states: usize,
    pub(crate) paths: HashMap<&'static str, Vec<String>>,
}

/// Checks every state within the scope, or stops when `finish_when` is found.
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

/// Checks that every property holds in every state of the scope. Returns the number of states.
#[track_caller]
pub(crate) fn assert_holds<M: Symmetric + Send + Sync + 'static>(name: &str, model: M) -> usize {
    let found = check(name, model, HasDiscoveries::AnyFailures);
    for (property, steps) in &found.paths {
        eprintln!("broken: {property}");
        steps.iter().for_each(|step| eprintln!("    {step}"));
    }
    assert!(found.paths.is_empty(), "{name}: the steps to the broken properties are above");
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

/// Visits every state once, and panics if an execution returns to an earlier state.
///
/// The checker's "eventually" is only reliable without cycles.
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
            Some(true) => panic!("{action:?} leads back to {state:#?}, after {path:#?}"),
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

/// Checks that the steps taken are all that `source` declares, and that the files they mirror exist.
#[track_caller]
pub(crate) fn assert_covered<'a>(source: &str, taken: impl Iterator<Item = (&'a str, &'static [&'static str])>) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut names = BTreeSet::new();
    for (name, files) in taken {
        for file in files {
            assert!(root.join(file).is_file(), "{name} mirrors {file}, which does not exist");
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
