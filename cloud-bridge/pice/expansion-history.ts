import { terminalStates } from '../../core/policy/jobs/job.ts'
import { ExpandedSentence, Expansion } from '../../core/wire/protocol/expansion.ts'
import { ExpandInput } from '../../core/wire/protocol/jobs.ts'
import type { JobStore } from '../queue/job-store.ts'

/** Lines of a job's history that are read at once. */
const maxLines = 256
/** Types of lines after which no device has the job. */
const idleTypes: ReadonlySet<string> = new Set(['queued', ...terminalStates.map((state) => state.toLowerCase())])

/** A job that expands sketches, as an earlier start of the bridge has left it. */
export interface StoredExpansion {
  readonly device: string
  readonly input: ExpandInput
  /** Whether its device has it. */
  readonly isDispatched: boolean
  /** Some of them twice, where the job has succeeded. */
  readonly sentences: readonly ExpandedSentence[]
}

/** Undefined: the job is deleted or damaged. */
export function readStoredExpansion(id: string, jobs: Pick<JobStore, 'events' | 'find'>): StoredExpansion | undefined {
  const found = jobs.find(id)
  const input = ExpandInput.safeParse(found?.input).data
  if (!found || found.boundTo === null || !input) return undefined
  const sentences = [...(Expansion.safeParse(found.result).data?.sentences ?? [])]
  let isDispatched = false
  for (let seq = 0; ; ) {
    const lines = jobs.events(id, seq, maxLines)
    for (const { type, data } of lines) {
      const { data: sentence } = ExpandedSentence.safeParse(data)
      if (type === 'sentence' && sentence) sentences.push(sentence)
      else if (type === 'sent') isDispatched = true
      else if (idleTypes.has(type)) isDispatched = false
    }
    const last = lines.at(-1)
    if (!last || lines.length < maxLines) return { device: found.boundTo, input, isDispatched, sentences }
    seq = last.seq
  }
}
