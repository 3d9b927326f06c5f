import { readFileSync, statSync } from 'node:fs'
import { isAlias, isMap, isScalar, isSeq, LineCounter, type Node, type Pair, parseDocument } from 'yaml'
import { BrimError } from '../base/errors.ts'
import type { Flag } from '../cli/flags.ts'
import { nearestWord } from '../cli/nearest-word.ts'
import type { Setting, Settings, SettingValue } from './setting.ts'

const maxFileBytes = 2 ** 20
const maxProblems = 8

/**
 * The options of a configuration file: YAML whose keys are the names of options without dashes. Sources of its settings are
 * `<path>:<line>`.
 * @param flags the options that it may set
 * @throws BrimError CONFIG_INVALID naming every line that is wrong
 */
export function readConfigFile(path: string, flags: readonly Flag[]): Settings {
  return parseConfigText(readText(path), path, flags)
}

function readText(path: string): string {
  try {
    const { size } = statSync(path)
    if (size > maxFileBytes)
      throw new BrimError('CONFIG_INVALID', `${path} has ${size} bytes: a configuration file has at most ${maxFileBytes}`)
    return readFileSync(path, 'utf8')
  } catch (cause) {
    if (cause instanceof BrimError) throw cause
    throw new BrimError('CONFIG_INVALID', `the configuration file ${path} cannot be read`, { cause, hint: 'check the path' })
  }
}

/** @param path for messages and sources */
export function parseConfigText(text: string, path: string, flags: readonly Flag[]): Settings {
  const lines = new LineCounter()
  const { contents, errors } = parseDocument(text, { lineCounter: lines, prettyErrors: false })
  const at = (offset: number) => `${path}:${lines.linePos(offset).line}`
  const problems = errors.map(({ message, pos: [offset] }) => `${at(offset)}: ${message}`)
  if (problems.length > 0) throw invalid(problems)
  // An empty file, or one of comments only.
  if (contents === null || (isScalar(contents) && contents.value === null)) return new Map()
  if (!isMap(contents)) throw invalid([`${at(contents.range?.[0] ?? 0)}: must be lines like "api-port: 7071"`])
  const settings = new Map<string, Setting>()
  for (const pair of contents.items as readonly Pair<Node, Node | null>[]) {
    const source = at(pair.key.range?.[0] ?? 0)
    const name = isScalar(pair.key) ? String(pair.key.value) : ''
    const flag = flags.find((each) => each.name === name)
    const problem = flag ? valueProblem(pair.value, flag) : unknownOption(name, flags)
    if (problem !== undefined) problems.push(`${source}: ${problem}`)
    else if (flag && pair.value) settings.set(name, { value: valueIn(pair.value, flag), source })
  }
  if (problems.length > 0) throw invalid(problems)
  return settings
}

function invalid(problems: readonly string[]): BrimError {
  const more = problems.length > maxProblems ? [`and ${problems.length - maxProblems} more`] : []
  return new BrimError('CONFIG_INVALID', [...problems.slice(0, maxProblems), ...more].join('; '), {
    hint: 'docs/configuration.md describes the file; "brim agent config show" and "brim bridge config show" list the options',
  })
}

function unknownOption(name: string, flags: readonly Flag[]): string {
  const positive = name.replace(/^no-/, '')
  const negated = flags.some((flag) => flag.name === positive && flag.type === 'boolean')
  if (negated) return `"${name}" is written "${positive}: false" here`
  const nearest = nearestWord(
    name.replace(/^--/, ''),
    flags.map((flag) => flag.name),
  )
  return `there is no option "${name}"${nearest === undefined ? '' : `; did you mean "${nearest}"?`}`
}

function valueProblem(node: Node | null, { name, isList, type, choices }: Flag): string | undefined {
  const allowed = choices ? `one of ${choices.join(', ')}` : type === 'boolean' ? 'true or false' : `a ${type}`
  if (node === null || (isScalar(node) && node.value === null)) return `"${name}" has no value: it must be ${allowed}`
  if (isAlias(node)) return `"${name}" must be written out: anchors are not supported`
  if (isSeq(node)) {
    if (!isList) return `"${name}" must be ${allowed}, not a list`
    const isSimple = node.items.every((item) => isScalar(item) && ['string', 'number'].includes(typeof item.value))
    return isSimple ? undefined : `"${name}" must be a list of values`
  }
  if (!isScalar(node)) return `"${name}" must be ${isList ? `a list: "${name}: [a, b]"` : allowed}`
  const given = typeof node.value
  if (type === 'string' || given === type) return undefined
  return `"${name}" must be ${allowed}, not ${node.source ?? String(node.value)}`
}

function valueIn(node: Node, { isList, type }: Flag): SettingValue {
  if (isSeq(node)) return node.items.map((item) => scalarOf(item, type) as string | number)
  const value = scalarOf(node, type)
  return isList ? [value as string | number] : value
}

/** An option that takes text gets it as it is written: 007 and 1.10 are names and addresses here. */
function scalarOf(node: unknown, type: Flag['type']): string | number | boolean {
  if (!isScalar(node)) throw new Error('not a scalar')
  return type === 'string' ? (node.source ?? String(node.value)) : (node.value as number | boolean)
}
