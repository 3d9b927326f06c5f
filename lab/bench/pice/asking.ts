import { BridgeClient } from '../../../cloud-bridge/commands/bridge-client.ts'
import type { BridgeMode } from '../../../core/kit/base/answer-modes.ts'
import { systemClock } from '../../../core/kit/base/clock.ts'
import { BrimError } from '../../../core/kit/base/errors.ts'
import type { ChatMessage } from '../../../core/model/text/chat-message.ts'
import { streamAnswerFrom } from '../../../core/wire/openai/client.ts'
import { jobOperations } from '../../../core/wire/protocol/http/jobs.ts'
import { formKept } from './form-kept.ts'
import type { PiceSample } from './runs.ts'

export interface Question {
  readonly messages: readonly ChatMessage[]
  readonly maxTokens: number
}

/** An answer as its client received it, and what of it is recorded; `prompt` and `atMs` follow from the request. */
export interface Answered {
  readonly text: string
  /** Lines of its sketch, if it has one. */
  readonly sketch: readonly string[]
  /** When each piece of text arrived, since the request. */
  readonly piecesMs: readonly number[]
  readonly sample: Omit<PiceSample, 'prompt' | 'atMs'>
}

/**
 * Asks the bridge.
 * @param user requests of different users share no cached prefix
 */
export function askBridge(
  url: string,
  { messages, maxTokens }: Question,
  { mode, user }: { readonly mode: BridgeMode; readonly user: string },
  signal: AbortSignal,
): Promise<Answered> {
  const body = { messages: [...messages], max_tokens: maxTokens, temperature: 0, user, brim: { mode } }
  return timed(signal, async (onText, within) => {
    // Of a sketch that shrinks while it is expanded, and grows while its first lines are.
    const sketch: string[] = []
    const onSketch = (lines: readonly string[]) => void sketch.push(...lines.filter((line) => !sketch.includes(line)))
    const { text, usage, report } = await streamAnswerFrom({ server: 'bridge', url }, body, within, { onText, onSketch })
    const { pice } = report
    const tokens = usage?.completion_tokens ?? 0
    if (!pice) return { text, by: 'cloud', cloudTokens: tokens }
    return {
      text,
      sketch: pice.mode === 'sketch' ? sketch : [],
      by: pice.mode === 'sketch' ? 'sketch' : 'cloud',
      reason: pice.reason,
      level: pice.level,
      foreseenTokens: pice.foreseenTokens,
      plannedS: pice.mode === 'sketch' ? pice.predictedS : pice.fullS,
      sketchLines: pice.sketchLines,
      completedSentences: pice.completedSentences,
      formKept: pice.mode === 'sketch' && pice.expandedSentences > 0 ? formKept(sketch, messages, text) : null,
      cloudTokens: pice.cloudTokens,
      edgeTokens: pice.edgeTokens,
    }
  })
}

/** Gives the question to the small model of the device that the queue chooses. */
export function askDevice(url: string, { messages, maxTokens }: Question, signal: AbortSignal): Promise<Answered> {
  return timed(signal, async (onText, within) => {
    const client = new BridgeClient({ url }, within)
    const submission = { kind: 'slm.generate' as const, input: { messages, maxTokens } }
    const { value } = await client.call(jobOperations.submit, { body: submission })
    if (!('id' in value)) throw new Error('one job was submitted, a batch is in the response')
    const { result } = await endOf(client, value.id, onText)
    const { text, tokens } = result as { readonly text: string; readonly tokens: number }
    return { text, by: 'device', edgeTokens: tokens }
  })
}

/** Waits for the end of a job. @throws BrimError JOB_FAILED, LINK_LOST */
export async function endOf(client: BridgeClient, id: string, onText: (text: string) => void = () => {}) {
  for await (const { value: event } of client.events(jobOperations.events, { params: { id } })) {
    if (!('job' in event)) {
      if (event.type === 'text') onText((event.data as { readonly text: string }).text)
      continue
    }
    if (event.job.state === 'SUCCEEDED') return event.job
    throw new BrimError('JOB_FAILED', `job ${id} is ${event.job.state}: ${event.job.error?.message ?? 'no reason is given'}`)
  }
  throw new BrimError('LINK_LOST', `the events of job ${id} ended early`)
}

type Made = Pick<Answered, 'text'> & Partial<Pick<Answered, 'sketch'>> & Pick<PiceSample, 'by'> & Partial<PiceSample>

const nothing = {
  ttftMs: null,
  tookMs: null,
  reason: null,
  level: null,
  foreseenTokens: null,
  plannedS: null,
  sketchLines: 0,
  completedSentences: 0,
  formKept: null,
  cloudTokens: 0,
  edgeTokens: 0,
  tokens: null,
  quality: null,
  error: null,
} as const

/** A request without its answer after this long has failed. */
const patienceMs = 180_000

async function timed(
  signal: AbortSignal,
  ask: (onText: (piece: string) => void, signal: AbortSignal) => Promise<Made>,
): Promise<Answered> {
  const sentMs = systemClock.nowMs()
  const sinceMs = () => Math.round(systemClock.nowMs() - sentMs)
  const piecesMs: number[] = []
  const onText = (piece: string) => {
    if (piece !== '') piecesMs.push(sinceMs())
  }
  const patience = AbortSignal.timeout(patienceMs)
  try {
    const { text, sketch = [], ...made } = await ask(onText, AbortSignal.any([signal, patience]))
    const tookMs = sinceMs()
    // A device reports text ten times a second at most: a short answer comes whole with its result.
    if (piecesMs.length === 0) piecesMs.push(tookMs)
    return { text, sketch, piecesMs, sample: { ...nothing, ...made, ttftMs: piecesMs[0] ?? tookMs, tookMs } }
  } catch (error) {
    signal.throwIfAborted()
    const reason = patience.aborted ? `no answer within ${patienceMs / 1_000} s` : failureOf(error)
    return { text: '', sketch: [], piecesMs, sample: { ...nothing, by: 'cloud', ttftMs: piecesMs[0] ?? null, error: reason } }
  }
}

function failureOf(error: unknown): string {
  if (error instanceof BrimError) return `${error.message} [${error.code}]`
  throw error
}
