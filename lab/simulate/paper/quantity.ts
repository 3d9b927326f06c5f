import { distinct, select } from '../../frame/runs.ts'
import { mean } from '../../frame/statistics.ts'
import type { Each, Quantity, Scalar, Selection } from './paper-file.ts'

/** A simulated run, or what a paper's code has made of several: what was varied, and what came out. */
export type PaperRun = Readonly<Record<string, unknown>>

/** @throws RangeError where there is no such run */
export function firstRun(runs: readonly PaperRun[], wanted: Selection): PaperRun {
  const [run] = select(runs, wanted)
  if (!run) throw new RangeError(`no run of ${JSON.stringify(wanted)}`)
  return run
}

/** @param runs whose values `all` stands for */
export function combinationsOf(each: Each, runs: readonly PaperRun[]): readonly Selection[] {
  return Object.entries(each).reduce<readonly Selection[]>(
    (combinations, [name, values]) =>
      combinations.flatMap((combination) =>
        (values === 'all' ? valuesOf(select(runs, combination), name) : values).map((value) => ({
          ...combination,
          [name]: value,
        })),
      ),
    [{}],
  )
}

const valuesOf = (runs: readonly PaperRun[], name: string): readonly Scalar[] =>
  distinct(runs, name).filter((value): value is Scalar => value !== undefined)

const relations = {
  ratio: (own: number, other: number) => own / other,
  inverse: (own: number, other: number) => other / own,
  'share cut': (own: number, other: number) => 1 - own / other,
  'percent cut': (own: number, other: number) => 100 * (1 - own / other),
  'share gain': (own: number, other: number) => own / other - 1,
  'percent change': (own: number, other: number) => 100 * (own / other - 1),
}

/**
 * @param base what its runs have where it says nothing else
 * @param changes what they have whatever it says
 * @returns null where no run has the figure
 * @throws RangeError where there are no such runs
 */
export function quantityOf(
  { figure, of, over, as, across, by }: Quantity,
  runs: readonly PaperRun[],
  base: Selection = {},
  changes: Selection = {},
): number | null {
  const whole = { ...base, ...of, ...changes }
  const values = combinationsOf(across, select(runs, whole)).flatMap((combination) => {
    const wanted = { ...whole, ...combination }
    const own = meanOf(runs, wanted, figure)
    const other = over && meanOf(runs, { ...wanted, ...over }, figure)
    if (own === null || other === null) return []
    return other === undefined ? own : relations[as](own, other)
  })
  if (values.length === 0) return null
  return by === 'mean' ? mean(values) : Math[by](...values)
}

function meanOf(runs: readonly PaperRun[], wanted: Selection, figure: string): number | null {
  const found = select(runs, wanted)
  if (found.length === 0) throw new RangeError(`no run of ${JSON.stringify(wanted)}`)
  return mean(found.flatMap((run) => (run[figure] as number | null | undefined) ?? []))
}
