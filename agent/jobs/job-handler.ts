import type { z } from 'zod'
import '../../core/kit/base/plain-messages.ts'
import { BrimError } from '../../core/kit/base/errors.ts'
import type { ExpandedSentence } from '../../core/wire/protocol/expansion.ts'
import { reasonOf } from '../../core/wire/protocol/read-message.ts'

/**
 * Runs one kind of job.
 * @param emitText reports a piece of the answer
 * @returns the whole result
 */
export type JobHandler = (
  input: unknown,
  emitText: (text: string) => void,
  signal: AbortSignal,
  job: JobContext,
) => Promise<Record<string, unknown>>

export type JobHandlers = Readonly<Record<string, JobHandler>>

export interface JobContext {
  /** The bridge and its job: the same in all attempts. */
  readonly id: string
  /** Address of the broker that delivered the job. */
  readonly link: string
  /** How long it has waited for other jobs of this device. */
  readonly waitedMs: number
  /** Reports the progress of a job without text. */
  progress(doneBytes: number, totalBytes: number): void
  /** Sentences of an expansion that earlier attempts on this device have finished. */
  readonly finishedSentences: readonly ExpandedSentence[]
  /** Reports and stores a sentence of an expansion. One that is stored already is only reported again. */
  sentence(finished: ExpandedSentence): void
}

/** Ends an attempt that another start of the agent goes on with. */
export class RestartRequired extends Error {
  override readonly name = 'RestartRequired'
}

/** @throws BrimError REQUEST_INVALID */
export function parseInput<T>(schema: z.ZodType<T>, input: unknown): T {
  const parsed = schema.safeParse(input)
  if (parsed.success) return parsed.data
  throw new BrimError('REQUEST_INVALID', `the job's input is invalid: ${reasonOf(parsed.error)}`)
}
