import { medianOrNull, over } from './statistics.ts'

/** Settings by which runs are chosen; undefined: any. */
export type Wanted<Run> = { readonly [Name in keyof Run]?: Run[Name] | undefined }

/** The runs that have these settings. */
export function select<Run extends object>(runs: readonly Run[], wanted: Wanted<Run>): Run[] {
  const settings = (Object.entries(wanted) as [keyof Run, unknown][]).filter(([, value]) => value !== undefined)
  return runs.filter((run) => settings.every(([name, value]) => run[name] === value))
}

/** The values of a setting, in the order of their first run. */
export const distinct = <Run, Name extends keyof Run>(runs: readonly Run[], name: Name): Run[Name][] => [
  ...new Set(runs.map((run) => run[name])),
]

/** The runs of each value of a setting; values without runs are left out. */
export function runsBy<Run extends object, Name extends keyof Run, Value extends Run[Name] = Run[Name]>(
  runs: readonly Run[],
  name: Name,
  values: readonly Value[] = distinct(runs, name) as Value[],
): { readonly name: Value; readonly runs: Run[] }[] {
  return values
    .map((value) => ({ name: value, runs: runs.filter((run) => run[name] === value) }))
    .filter((group) => group.runs.length > 0)
}

/** Names with their values, where they have one. */
export const measured = <Name>(names: readonly Name[], value: (name: Name) => number | null): (readonly [Name, number])[] =>
  names.flatMap((name) => {
    const measuredValue = value(name)
    return measuredValue === null ? [] : [[name, measuredValue] as const]
  })

/** A bar for each name that has a value. */
export const barsOf = <Name extends string>(names: readonly Name[], read: (name: Name) => number | null) =>
  measured(names, read).map(([name, value]) => ({ name, value }))

/** A figure of a run: its name, or a function where it has none. */
export type FigureOf<Run, Name> = Name | ((run: Run) => number | null)

/**
 * What the runs of an experiment show.
 * @param figuresOf all figures of one run by name; null where nothing was measured
 * @param pairedBy settings that two runs share whose figures are divided
 */
export function figuresOver<Run extends object, Name extends string>(
  figuresOf: (run: Run) => Readonly<Record<Name, number | null>>,
  pairedBy: readonly (keyof Run)[],
) {
  const read = (run: Run, figure: FigureOf<Run, Name>) => (typeof figure === 'function' ? figure(run) : figuresOf(run)[figure])
  return {
    /** The median over runs, of which there is one per seed; null without any. */
    medianOf: (runs: readonly Run[], figure: FigureOf<Run, Name>): number | null =>
      medianOrNull(runs.flatMap((run) => read(run, figure) ?? [])),
    /** A figure of some runs over that of the runs beside them: the median over pairs; null without any. */
    ratioOf(
      runs: readonly Run[],
      figure: FigureOf<Run, Name>,
      [own, other]: readonly [Wanted<Run>, Wanted<Run>],
      otherFigure = figure,
    ): number | null {
      const others = select(runs, other)
      const ratios = select(runs, own).flatMap((run) => {
        const beside = others.find((each) => pairedBy.every((name) => each[name] === run[name]))
        return beside ? (over(read(run, figure), read(beside, otherFigure)) ?? []) : []
      })
      return medianOrNull(ratios)
    },
  }
}
