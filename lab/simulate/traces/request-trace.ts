import { BrimError } from '../../../core/kit/base/errors.ts'

/** One request of a recorded workload. */
export interface TracedRequest {
  /** Since the first request of the trace. */
  readonly atMs: number
  readonly promptTokens: number
  readonly outputTokens: number
  /** Of the prompt's beginning, that earlier requests of the trace had in common. */
  readonly sharedTokens: number
}

/** Tokens of a block of Mooncake's prompts: equal ids mean equal blocks after equal beginnings. */
const blockTokens = 512

const hint =
  'a CSV file begins with the names of its columns: arrival (seconds), prompt tokens, output tokens, or as in the Azure traces ' +
  'TIMESTAMP, ContextTokens, GeneratedTokens; a JSONL file has an object with such fields in each line, or those of Mooncake'

type Field = 'promptTokens' | 'outputTokens'
/** Names of a field, in lower case and without what is no letter. */
const names: Readonly<Record<Field, readonly string[]>> = {
  promptTokens: ['prompttokens', 'contexttokens', 'inputlength', 'inputtokens', 'prompt'],
  outputTokens: ['outputtokens', 'generatedtokens', 'outputlength', 'answertokens', 'completiontokens', 'output'],
}
/** Names of the column of times, with their units in ms; 0: a date or seconds. */
const timeNames: Readonly<Record<string, number>> = { arrival: 1_000, arrivals: 1_000, atms: 1, arrivalms: 1, timestamp: 0 }

/**
 * Reads a trace of requests: Azure's CSV, Mooncake's JSONL, or CSV or JSONL with arrival, prompt tokens and output tokens.
 * @param file its name, for messages
 * @returns in the order of arrival
 * @throws BrimError REQUEST_INVALID naming the line that is wrong
 */
export function parseRequestTrace(text: string, file: string): TracedRequest[] {
  const rows = text.trimStart().startsWith('{') ? jsonRows(text, file) : csvRows(text, file)
  const seen = new Set<number>()
  const requests = rows.map(({ line, fields }) => {
    const numberOf = (field: Field) => {
      const value = Number(
        names[field].map((name) => fields[name]).find((given) => given !== undefined && given !== '') ?? Number.NaN,
      )
      if (value >= 0) return Math.max(1, Math.round(value))
      throw unusable(file, `line ${line} has no ${field === 'promptTokens' ? 'prompt tokens' : 'output tokens'}`)
    }
    const promptTokens = numberOf('promptTokens')
    const atMs = timeOf(fields)
    if (!Number.isFinite(atMs)) throw unusable(file, `line ${line} has no time of arrival`)
    const sharedTokens = Math.min(promptTokens - 1, blockTokens * knownBlocks(fields.hashids, seen))
    return { atMs, promptTokens, outputTokens: numberOf('outputTokens'), sharedTokens }
  })
  if (requests.length === 0) throw unusable(file, 'has no requests')
  requests.sort((a, b) => a.atMs - b.atMs)
  const startMs = requests[0]!.atMs
  return requests.map((request) => ({ ...request, atMs: request.atMs - startMs }))
}

interface Row {
  /** Counted from 1. */
  readonly line: number
  readonly fields: Readonly<Record<string, unknown>>
}

function csvRows(text: string, file: string): Row[] {
  const [head = '', ...lines] = text.split(/\r?\n/)
  const columns = head.split(',').map(plain)
  if (!columns.some((column) => column in timeNames)) throw unusable(file, 'has no column with times of arrival')
  return lines.flatMap((text, i) => {
    if (text.trim() === '') return []
    const values = text.split(',')
    return { line: i + 2, fields: Object.fromEntries(columns.map((column, at) => [column, values[at]?.trim()])) }
  })
}

function jsonRows(text: string, file: string): Row[] {
  return text.split(/\r?\n/).flatMap((text, i) => {
    if (text.trim() === '') return []
    try {
      const fields = Object.entries(JSON.parse(text) as object).map(([name, value]) => [plain(name), value] as const)
      return { line: i + 1, fields: Object.fromEntries(fields) }
    } catch (cause) {
      throw unusable(file, `line ${i + 1} is no JSON object`, cause)
    }
  })
}

const plain = (name: string): string => name.toLowerCase().replace(/[^a-z]/g, '')

/** In ms; NaN where there is none. */
function timeOf(fields: Row['fields']): number {
  for (const [name, unitMs] of Object.entries(timeNames)) {
    const given = fields[name]
    if (given === undefined || given === '') continue
    if (unitMs > 0) return Number(given) * unitMs
    // Mooncake counts ms; Azure writes UTC dates with more digits of the second than Date.parse takes for certain.
    return typeof given === 'number' ? given : Date.parse(`${String(given).slice(0, 23).replace(' ', 'T')}Z`)
  }
  return Number.NaN
}

/** Leading blocks of a prompt that an earlier one had; all of its blocks are remembered. */
function knownBlocks(ids: unknown, seen: Set<number>): number {
  if (!Array.isArray(ids)) return 0
  const firstNew = ids.findIndex((id: number) => !seen.has(id))
  for (const id of ids as number[]) seen.add(id)
  return firstNew < 0 ? ids.length : firstNew
}

const unusable = (file: string, problem: string, cause?: unknown) =>
  new BrimError('REQUEST_INVALID', `the trace ${file}: ${problem}`, { cause, hint })
