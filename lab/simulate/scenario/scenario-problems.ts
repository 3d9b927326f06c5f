import { z } from 'zod'
import { nearestWord } from '../../../core/kit/cli/nearest-word.ts'
import { AllowedValues, type Path } from './allowed-values.ts'
import { Scenario } from './scenario.ts'

/** A field that is wrong: where it is, and why, as it follows the path. */
export interface ScenarioProblem {
  readonly path: Path
  readonly text: string
}

type Issue = z.core.$ZodIssue

const allowed = new AllowedValues(z.toJSONSchema(Scenario, { io: 'input' }))

/** What is wrong with a scenario, field by field, with the allowed values. @param raw as it was given */
export function scenarioProblems({ issues }: z.ZodError, raw: unknown): ScenarioProblem[] {
  return issues.flatMap((issue) => problemsOf(issue, [], raw))
}

function problemsOf(issue: Issue, parent: Path, raw: unknown): ScenarioProblem[] {
  const path = [...parent, ...issue.path]
  if (issue.code === 'unrecognized_keys') return issue.keys.map((key) => ({ path: [...path, key], text: unknownText(key, path) }))
  if (issue.code === 'custom') return [{ path, text: issue.message }]
  if (issue.code === 'invalid_union') return unionProblems(issue.errors, path, raw)
  return [wrongValue(path, raw)]
}

function wrongValue(path: Path, raw: unknown): ScenarioProblem {
  const given = valueAt(raw, path)
  return { path, text: `${given === undefined ? 'is missing' : `is ${shown(given)}`}: it must be ${allowed.textAt(path)}` }
}

function unknownText(key: string, path: Path): string {
  const fields = allowed.fieldsAt(path)
  const nearest = nearestWord(key, fields)
  return `is unknown${nearest === undefined ? '' : `; did you mean "${nearest}"?`}; the fields are ${fields.join(', ')}`
}

/** Of the kind that was meant: the one whose `kind` matches, else the one with the fewest mistakes. */
function unionProblems(kinds: readonly (readonly Issue[])[], path: Path, raw: unknown): ScenarioProblem[] {
  const otherType = (issue: Issue) => issue.code === 'invalid_type' && issue.path.length === 0
  const otherKind = (issue: Issue) => issue.code === 'invalid_value' && issue.path.at(-1) === 'kind'
  const meant = kinds.filter((issues) => !issues.some(otherType))
  const own = meant.filter((issues) => !issues.some(otherKind)).sort((a, b) => a.length - b.length)
  if (own[0]) return own[0].flatMap((issue) => problemsOf(issue, path, raw))
  const [kind] = meant.flatMap((issues) => issues.filter(otherKind))
  if (kind) return problemsOf(kind, path, raw)
  return [wrongValue(path, raw)]
}

const valueAt = (raw: unknown, path: Path): unknown =>
  path.reduce((place: unknown, part) => (place as Record<PropertyKey, unknown> | null | undefined)?.[part], raw)

const maxShown = 60

function shown(value: unknown): string {
  const text = JSON.stringify(value) ?? String(value)
  return text.length > maxShown ? `${text.slice(0, maxShown)}…` : text
}
