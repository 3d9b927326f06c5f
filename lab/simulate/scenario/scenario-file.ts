import { type Document, isNode, LineCounter, parseDocument, parse as parseYaml } from 'yaml'
import { BrimError, orThrow } from '../../../core/kit/base/errors.ts'
import type { Path } from './allowed-values.ts'
import { Scenario } from './scenario.ts'
import { type ScenarioProblem, scenarioProblems } from './scenario-problems.ts'

/** A scenario of a file; several where the file sweeps over fields. */
export interface Variant {
  /** What this one has in each swept field, by its path. */
  readonly swept: Readonly<Record<string, unknown>>
  readonly scenario: Scenario
}

export const maxVariants = 10_000
const maxProblems = 8
const hint = 'docs/simulator.md describes scenario files; "brim simulate schema" prints their JSON schema, for editors'

/**
 * The scenarios of a file: YAML or JSON, with `sweep` one for each combination of its values, the first field slowest.
 * @param file for messages
 * @param sets changes as in `workload.requests=100`, which take precedence over the file
 * @throws BrimError CONFIG_INVALID naming each wrong field by its path, and what is allowed there
 */
export function parseScenarioFile(text: string, file: string, sets: readonly string[] = []): readonly Variant[] {
  const lines = new LineCounter()
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false })
  if (document.errors.length > 0)
    throw invalid(document.errors.map(({ message, pos: [offset] }) => `${file}:${lines.linePos(offset).line}: ${message}`))
  const raw: unknown = document.toJS()
  if (!isRecord(raw)) throw invalid([`${file}: a scenario has fields such as "name" and "workload"`])
  const changed = new Map<string, string>()
  for (const set of sets) {
    const at = set.indexOf('=')
    if (at < 1) throw new BrimError('USAGE', `--set ${set} has no value`, { hint: 'as in --set workload.requests=100' })
    const path = set.slice(0, at)
    endSweep(raw, path)
    assign(raw, path, valueIn(set, at), `--set ${set}`)
    changed.set(path, `--set ${set}`)
  }
  const { sweep, ...base } = raw
  const placeOf = (path: Path) => changed.get(path.join('.')) ?? `${file}${lineAt(document, lines, path)}`
  const problems = sweepProblems(sweep)
  if (problems.length > 0) throw invalid(problems.map((problem) => `${placeOf(['sweep'])}: ${problem}`))
  return combinations((sweep ?? {}) as Record<string, readonly unknown[]>).map((swept) => {
    const own = structuredClone(base)
    for (const [path, value] of Object.entries(swept)) assign(own, path, value, `${placeOf(['sweep', path])}: sweep`)
    const parsed = Scenario.safeParse(own)
    if (parsed.success) return { swept, scenario: parsed.data }
    const wrong = scenarioProblems(parsed.error, own)
    throw invalid(
      wrong.map((problem) =>
        textOf(problem, problem.path.join('.') in swept ? placeOf(['sweep', problem.path.join('.')]) : placeOf(problem.path)),
      ),
    )
  })
}

/** @param at index of the equals sign @throws BrimError USAGE */
function valueIn(set: string, at: number): unknown {
  return orThrow(
    () => parseYaml(set.slice(at + 1), { prettyErrors: false }),
    'USAGE',
    `the value of --set ${set} is no YAML`,
    'as in --set "workload.arrivals={kind: burst}"',
  )
}

/** A field that has a value now is no longer swept over. */
function endSweep(raw: Record<string, unknown>, path: string): void {
  if (!isRecord(raw.sweep)) return
  const own = indexed(raw, path)
  raw.sweep = Object.fromEntries(Object.entries(raw.sweep).filter(([swept]) => indexed(raw, swept) !== own))
}

/** The path with the numbers of items in place of their names. */
function indexed(raw: Record<string, unknown>, path: string): string {
  let at: unknown = raw
  const keys = path.split('.').map((part) => {
    const key = keyIn(at, part)
    at = (at as Record<string, unknown> | undefined)?.[key]
    return key
  })
  return keys.join('.')
}

const textOf = ({ path, text }: ScenarioProblem, place: string): string =>
  `${place}: ${path.length === 0 ? 'the scenario' : path.join('.')} ${text}`

function sweepProblems(sweep: unknown): string[] {
  if (sweep === undefined) return []
  if (!isRecord(sweep)) return ['sweep must be fields by their paths, each with a list of values: "cloud.gpu: [a6000, h100]"']
  const empty = Object.entries(sweep).filter(([, values]) => !Array.isArray(values) || values.length === 0)
  if (empty.length > 0) return empty.map(([path]) => `sweep.${path} must be a list of values`)
  const count = Object.values(sweep).reduce<number>((product, values) => product * (values as unknown[]).length, 1)
  return count > maxVariants ? [`sweep has ${count} combinations, more than ${maxVariants}`] : []
}

/** Every combination of these values, the first name slowest. */
export function combinations<Value>(values: Readonly<Record<string, readonly Value[]>>): Record<string, Value>[] {
  return Object.entries(values).reduce<Record<string, Value>[]>(
    (all, [name, each]) => all.flatMap((one) => each.map((value) => ({ ...one, [name]: value }))),
    [{}],
  )
}

/**
 * Sets the field at a path, as in `devices.0.count`; an item of a list is also found by its name, as in `devices.phones.count`.
 * @throws BrimError CONFIG_INVALID
 */
function assign(raw: Record<string, unknown>, path: string, value: unknown, place: string): void {
  const parts = path.split('.')
  const last = parts.pop()!
  let at: Record<string, unknown> = raw
  for (const [i, part] of parts.entries()) {
    const key = keyIn(at, part)
    at[key] ??= {}
    const next = at[key]
    if (!isRecord(next) && !Array.isArray(next))
      throw invalid([`${place}: ${parts.slice(0, i + 1).join('.')} is ${JSON.stringify(next)}, which has no fields`])
    at = next as Record<string, unknown>
  }
  at[keyIn(at, last)] = value
}

function keyIn(place: unknown, part: string): string {
  if (!Array.isArray(place)) return part
  const named = place.findIndex((item: unknown) => isRecord(item) && (item.name === part || item.mode === part))
  return named < 0 ? part : String(named)
}

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Of the field, or of the nearest one around it that the file has. */
function lineAt(document: Document, lines: LineCounter, path: Path): string {
  for (let length = path.length; length > 0; length -= 1) {
    const node = document.getIn(path.slice(0, length), true)
    if (isNode(node) && node.range) return `:${lines.linePos(node.range[0]).line}`
  }
  return ''
}

function invalid(problems: readonly string[]): BrimError {
  const more = problems.length > maxProblems ? [`and ${problems.length - maxProblems} more`] : []
  return new BrimError('CONFIG_INVALID', [...problems.slice(0, maxProblems), ...more].join('; '), { hint })
}
