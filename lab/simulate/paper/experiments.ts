import { Scenario } from '../scenario/scenario.ts'
import type { PaperFile, Selection } from './paper-file.ts'
import { combinationsOf } from './quantity.ts'

/** What is simulated, in the order of the paper's file, whose settings are of this type. */
export const experimentsOf = <Setting>({ experiments }: PaperFile, isQuick: boolean): readonly Setting[] =>
  experiments.flatMap(({ each, quick, with: fields }) =>
    combinationsOf({ ...each, ...(isQuick && quick) }, []).map((varied) => ({ ...varied, ...fields }) as Setting),
  )

/**
 * The paper's scenario for a setting, with what the code adds.
 * @throws ZodError where they are no scenario together
 */
export function scenarioFor({ scenario }: PaperFile, setting: object, ...more: readonly object[]): Scenario {
  const varied = setting as Selection
  const parts = Object.entries(scenario.by).flatMap(([name, patches]): object[] => {
    const patch = patches[String(varied[name])]
    return patch ? [patch] : []
  })
  return Scenario.parse([...parts, ...more].reduce<object>(merged, scenario.base))
}

/** Objects within one another are merged; everything else is replaced. */
function merged(one: object, other: object): object {
  const whole: Record<string, unknown> = { ...one }
  for (const [name, value] of Object.entries(other)) {
    const before = whole[name]
    whole[name] = isObject(before) && isObject(value) ? merged(before, value) : value
  }
  return whole
}

const isObject = (value: unknown): value is object => typeof value === 'object' && value !== null && !Array.isArray(value)
