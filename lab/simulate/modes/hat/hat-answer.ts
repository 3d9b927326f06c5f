import type { Random } from '../../../../core/base/random.ts'
import { nextChunk } from '../../../../core/policy/hat/chunk-size.ts'
import { type RoundTrip, rowS } from '../../../../core/policy/hat/draft-ahead-steps.ts'
import { maxDraftTokens } from '../../../../core/policy/hat/draft-stop.ts'
import type { Simulation } from '../../kernel/simulation.ts'
import type { Answer } from '../../world/answer.ts'
import type { DeviceParts } from './device-parts.ts'
import type { Drafting } from './drafting.ts'
import type { HatDevice } from './hat-device.ts'
import type { Uplink } from './uplink.ts'

/** Drafts of Medusa's heads: a tree of so many tokens, of which some are right. */
export interface TreeDrafts {
  readonly tokens: number
  right(random: Random): number
}

export interface HatAnswerOptions {
  readonly simulation: Simulation
  readonly device: HatDevice
  readonly parts: DeviceParts
  readonly uplink: Uplink
  /** As agent/hat/strategy.ts. */
  readonly prefill: 'chunked' | 'whole' | 'whole-all'
  readonly maxChunkTokens: number
  /** Undefined: one token per round. */
  readonly drafts: Drafting | TreeDrafts | undefined
  readonly draftLimit: number
  readonly padding: boolean
  readonly random: Random
  /** The device computes for so many seconds. */
  compute(seconds: number, done: () => void): void
}

/** What is to be answered: an answer of its own, or a part of one. */
export interface SplitAnswer extends Pick<Answer, 'work' | 'tokens' | 'reader' | 'deliver'> {
  readonly request: Pick<Answer['request'], 'promptTokens' | 'outputTokens' | 'sharedTokens'>
  /** @param refusal why it was not answered */
  end(refusal?: string): void
}

/** One answer by the split model, in the steps of agent/hat/session.ts. */
export function answerBySplit(answer: SplitAnswer, options: HatAnswerOptions): void {
  const { simulation, device, parts, uplink, drafts, draftLimit, compute } = options
  const { promptTokens, outputTokens } = answer.request
  const { work } = answer

  const hardware = () => device.device.hardware
  const feed = (rows: number, context: number, done: () => void) => compute(parts.inputS(hardware(), rows, context), done)
  const catchUp = (rows: number, context: number, done: () => void) => {
    if (drafts && 'draft' in drafts) compute(parts.adapterS(hardware(), rows, context), done)
    else done()
  }

  function feedTimed(rows: number, context: number, done: () => void): void {
    const startedMs = simulation.nowMs
    feed(rows, context, () => {
      device.speed.recordPrefill(rows, (simulation.nowMs - startedMs) / 1_000)
      done()
    })
  }

  /** The device computes the cached prefix too: decoding needs its KV. */
  function prefill(held: number): void {
    work.devicePromptTokens = promptTokens
    work.serverPromptTokens = promptTokens - held
    const start = () => (options.prefill === 'chunked' ? sendChunks(held) : sendWhole(held))
    if (held === 0) start()
    else feedTimed(held, 0, () => catchUp(held, 0, start))
  }

  /** The device computes a chunk while the bridge computes the one before. Only the last position's deep state comes back. */
  function sendChunks(from: number): void {
    const to = from + nextChunk(promptTokens - from, uplink.chunkTokens, options.maxChunkTokens)
    const isLast = to === promptTokens
    feedTimed(to - from, from, () =>
      uplink.awaitCapacity(to - from, () => {
        uplink.send({ from, rows: to - from, returned: isLast ? 1 : 0 }, () => isLast && first())
        catchUp(to - from, from, () => !isLast && sendChunks(to))
      }),
    )
  }

  /** The baselines: the device computes the whole prompt before it sends any. */
  function sendWhole(start: number): void {
    const send = (from: number): void => {
      const to = Math.min(from + options.maxChunkTokens, promptTokens)
      const isLast = to === promptTokens
      const returned = options.prefill === 'whole-all' ? to - from : isLast ? 1 : 0
      uplink.awaitCapacity(to - from, () => {
        uplink.send({ from, rows: to - from, returned }, () => isLast && first())
        if (isLast) catchUp(promptTokens - start, start, () => {})
        else send(to)
      })
    }
    feedTimed(promptTokens - start, start, () => send(start))
  }

  function first(): void {
    compute(parts.outputS(hardware(), 1), () => deliver(1))
  }

  function deliver(tokens: number): void {
    answer.deliver(tokens)
    work.deviceOutputTokens += tokens
    work.serverOutputTokens += tokens
    if (answer.tokens < outputTokens) {
      round()
    } else {
      uplink.close()
      answer.end()
    }
  }

  let roundMs = 0

  function round(): void {
    roundMs = simulation.nowMs
    const position = promptTokens + answer.tokens - 1
    const limit = maxDraftTokens(draftLimit, outputTokens - answer.tokens, position, Number.POSITIVE_INFINITY)
    if (!drafts) feed(1, position, () => verify(position, 1, () => 0))
    else if ('draft' in drafts)
      drafts.draft(position, limit, rowS(roundTrip(1)), (drafted) => verifyChain(drafts, position, drafted, limit))
    else verifyTree(drafts, position, limit)
  }

  function verifyTree(drafts: TreeDrafts, position: number, limit: number): void {
    compute(parts.medusaS(hardware()), () =>
      feed(1 + drafts.tokens, position, () =>
        verify(position, 1 + drafts.tokens, () => Math.min(limit, drafts.right(options.random))),
      ),
    )
  }

  function verifyChain(drafting: Drafting, position: number, drafted: number, limit: number): void {
    verify(
      position,
      1 + drafted,
      () => drafting.verified(),
      (right) => drafting.settle(right),
    )
    drafting.draftAhead(position, limit, roundTrip(1 + drafted))
  }

  /** @param verified called when the deep states are back; returns how many tokens of the draft are right */
  function verify(position: number, rows: number, verified: () => number, settle: (right: number) => void = () => {}): void {
    const paddedRows = options.padding && drafts ? draftLimit + 1 : undefined
    work.draftingS += (simulation.nowMs - roundMs) / 1_000
    uplink.send({ from: position, rows, returned: rows, paddedRows }, ({ upS, cloudS, downS }) => {
      const right = verified()
      const repliedMs = simulation.nowMs
      work.uplinkS += upS
      work.cloudS += cloudS
      work.downlinkS += downS
      compute(parts.outputS(hardware(), rows), () => {
        settle(right)
        work.choosingS += (simulation.nowMs - repliedMs) / 1_000
        work.rounds += 1
        work.draftedTokens += rows - 1
        work.gainedTokens += right + 1
        deliver(right + 1)
      })
    })
  }

  function roundTrip(rows: number): RoundTrip {
    const { upBytesPerS = Number.POSITIVE_INFINITY, downBytesPerS = Number.POSITIVE_INFINITY, rttS, cloudS } = device.rates
    // The bridge's waiting and computing are measured as one time.
    return { rows, bytesPerToken: uplink.rowBytes, upBytesPerS, downBytesPerS, rttS, waitS: 0, computeS: cloudS }
  }

  uplink.open(prefill)
}
