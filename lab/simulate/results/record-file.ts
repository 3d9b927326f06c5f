import { closeSync, openSync, writeFileSync } from 'node:fs'
import { orThrow } from '../../../core/kit/base/errors.ts'
import type { AnswerRecord } from '../world/answer-record.ts'

/** Where the records of a run are written: one line for each answer. Plain data, for threads. */
export interface RecordTarget {
  readonly file: string
  /** Comma-separated values; else one JSON object a line. */
  readonly isCsv: boolean
  /** Whether the file begins with the names of the columns (CSV). */
  readonly hasHead: boolean
  /** With which each line begins: the number of the run, and what it has in swept fields. */
  readonly common: Readonly<Record<string, unknown>>
}

const columns = [
  ...['id', 'atMs', 'mode', 'part', 'device', 'promptTokens', 'outputTokens', 'sharedTokens', 'tokensPerS'],
  ...['refusal', 'ttftMs', 'tbtMs', 'endedMs', 'tokens', 'stalledMs', 'weightedTokens'],
  ...['serverPromptTokens', 'serverOutputTokens', 'devicePromptTokens', 'deviceOutputTokens', 'joules', 'dollars'],
  ...['rounds', 'gainedTokens', 'sketchTokens', 'migrations', 'bufferedTokens', 'delayedTokens'],
] as readonly (keyof AnswerRecord)[]

/** Characters that wait to be written. */
const bufferedChars = 65_536

/** The records of one run, in the order in which the answers end. Its memory does not grow with them. */
export class RecordFile {
  readonly #target: RecordTarget
  readonly #descriptor: number
  #waiting = ''

  /** Empties the file. @throws BrimError TARGET_UNWRITABLE */
  constructor(target: RecordTarget) {
    this.#target = target
    this.#descriptor = this.#do(() => openSync(target.file, 'w'))
    if (target.isCsv && target.hasHead) this.#waiting = csvLine([...Object.keys(target.common), ...columns])
  }

  /** @throws BrimError TARGET_UNWRITABLE */
  write(record: AnswerRecord): void {
    const { isCsv, common } = this.#target
    this.#waiting += isCsv
      ? csvLine([...Object.values(common), ...columns.map((column) => record[column])])
      : `${JSON.stringify({ ...common, ...Object.fromEntries(columns.map((column) => [column, record[column]])) })}\n`
    if (this.#waiting.length >= bufferedChars) this.#flush()
  }

  /** @throws BrimError TARGET_UNWRITABLE */
  close(): void {
    try {
      this.#flush()
    } finally {
      closeSync(this.#descriptor)
    }
  }

  #flush(): void {
    const text = this.#waiting
    this.#waiting = ''
    this.#do(() => writeFileSync(this.#descriptor, text))
  }

  #do<Result>(action: () => Result): Result {
    return orThrow(
      action,
      'TARGET_UNWRITABLE',
      `the records cannot be written to ${this.#target.file}`,
      'name a file in another folder with --records',
    )
  }
}

const csvLine = (values: readonly unknown[]): string => `${values.map(csvValue).join(',')}\n`

/** Empty: unknown, as the times of an answer without tokens. */
function csvValue(value: unknown): string {
  if (value === undefined || value === null || Number.isNaN(value)) return ''
  const text = typeof value === 'object' ? JSON.stringify(value) : String(value)
  return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}
