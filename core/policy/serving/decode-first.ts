import { type CachedPrefix, evictionsFor, type KvUsage } from '../admission/kv.ts'
import type { ServingPlan, ServingPolicy, ServingState, StreamState } from './policy.ts'

export interface DecodeFirstLimits {
  /** Rows of prompts in one step while a stream decodes. They bound how long a prompt delays another stream's next token. */
  readonly promptRows: number
  /** A piece of a prompt has at least this many rows, unless fewer wait: fewer are not worth a place in a step. */
  readonly minPromptRows: number
  /** Rows that were skipped by this many steps go before all others. */
  readonly maxStepsSkipped: number
  /** A stream counts as decoding for this long after its last decode step: its next rows are on their way. */
  readonly decodingMs: number
}

/**
 * Decode and verify first, then prompts, each in the order of arrival, until rows or places run out. Prompts are cut into
 * pieces, so that no stream's next token waits for another's whole prompt (Sarathi-Serve, arXiv:2403.02310), and rows that
 * were skipped too often go first, so that prompts proceed however many streams decode. Streams are never preempted; an
 * evicted stream is resumed as soon as it has waiting rows and its KV fits.
 */
export function decodeFirst(limits: DecodeFirstLimits): ServingPolicy {
  return {
    plan(state, nowMs) {
      const { evict, resume } = resumptions(state)
      const resumed = new Set(resume.map(({ stream }) => stream))
      const ready = state.waiting.filter(({ id, residency }) => residency === 'resident' || resumed.has(id))
      const decoding = state.lastDecodeMs !== undefined && nowMs - state.lastDecodeMs < limits.decodingMs
      return { evict, preempt: [], resume, run: nextStep(ready, state.step, limits, decoding), lookAgainAtMs: undefined }
    },
  }
}

/** The evicted streams that fit into the memory, in the order in which their rows arrived. */
function resumptions(state: ServingState): Pick<ServingPlan, 'evict' | 'resume'> {
  const evict: string[] = []
  const resume: ServingPlan['resume'][number][] = []
  const evicted = state.waiting.filter(({ residency }) => residency === 'evicted')
  if (evicted.length === 0) return { evict, resume }
  let left: readonly CachedPrefix[] = state.cached
  let usage: KvUsage = state.memory
  for (const { id, kvBytes, resumptions } of evicted) {
    const evictions = evictionsFor(kvBytes, usage, left)
    if (!evictions) break
    const freedBytes = evictions.reduce((sum, prefix) => sum + prefix.kvBytes, 0)
    usage = { ...usage, usedBytes: usage.usedBytes - freedBytes + kvBytes }
    left = left.slice(evictions.length)
    evict.push(...evictions.map(({ handle }) => handle))
    resume.push({ stream: id, by: resumptions.includes('load') ? 'load' : 'recompute' })
  }
  return { evict, resume }
}

/** @param decoding a stream decodes, though none of its rows may wait now */
function nextStep(
  ready: readonly StreamState[],
  step: ServingState['step'],
  limits: DecodeFirstLimits,
  decoding: boolean,
): ServingPlan['run'] {
  const promptsAreLimited = decoding || ready.some(({ phase }) => phase !== 'prefill')
  // Stable: streams of the same rank stay in the order of arrival.
  const ranked = ready.toSorted((a, b) => rankOf(a, limits) - rankOf(b, limits))
  let freeRows = step.rows
  let freePromptRows = promptsAreLimited ? Math.min(limits.promptRows, step.rows) : step.rows
  const chosen = new Map<StreamState, number>()
  for (const stream of ranked) {
    if (chosen.size === step.streams) break
    const { waitingRows, phase } = stream
    const isPrompt = phase === 'prefill'
    const rows = Math.min(waitingRows, freeRows, isPrompt ? freePromptRows : freeRows)
    // A draft's rows are all in one step.
    const minRows = isPrompt ? Math.min(limits.minPromptRows, limits.promptRows) : waitingRows
    if (rows < Math.min(waitingRows, minRows, step.rows)) continue
    chosen.set(stream, rows)
    freeRows -= rows
    if (isPrompt) freePromptRows -= rows
  }
  return ready.flatMap((stream) => {
    const rows = chosen.get(stream)
    return rows === undefined ? [] : [{ stream: stream.id, rows }]
  })
}

function rankOf({ stepsSkipped, phase }: StreamState, limits: DecodeFirstLimits): number {
  if (stepsSkipped >= limits.maxStepsSkipped) return 0
  return phase === 'prefill' ? 2 : 1
}
