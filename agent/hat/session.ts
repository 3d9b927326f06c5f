import type { EndpointFigures } from '../../core/answer/figures.ts'
import { BrimError } from '../../core/base/errors.ts'
import { DeviceStream } from '../../core/draft/device-stream.ts'
import type { Drafter, TreeDrafter } from '../../core/draft/drafter.ts'
import type { Part } from '../../core/engine/contract.ts'
import { answerBudget } from '../../core/engine/generate.ts'
import { type Choice, choose, type TokenLogprobs } from '../../core/engine/logprobs.ts'
import type { Sampling } from '../../core/engine/sampler.ts'
import type { SharedHead } from '../../core/engine/shared-head.ts'
import type { Dims } from '../../core/model/manifest.ts'
import { acceptDraft } from '../../core/policy/hat/accept-draft.ts'
import { nextChunk } from '../../core/policy/hat/chunk-size.ts'
import type { DeviceSpeed } from '../../core/policy/hat/device-speed.ts'
import { type Branching, type RoundTrip, rowS } from '../../core/policy/hat/draft-ahead-steps.ts'
import { maxDraftTokens } from '../../core/policy/hat/draft-stop.ts'
import { type DraftTree, root } from '../../core/policy/hat/draft-tree.ts'
import { Reader, unreadOf } from '../../core/policy/serving/reader.ts'
import { rowBytes, type Wire } from '../../core/protocol/frame.ts'
import { type States, sliceStates } from '../../core/protocol/states.ts'
import type { LinkSession, SessionOptions } from '../link/link-session.ts'
import { Drafting } from './drafting.ts'
import { minPrefixTokens, type PrefixMemory } from './prefix-memory.ts'
import { isLinkFailure, type ReopenOptions, reopen } from './reopen.ts'
import { RoundCounters } from './round-counters.ts'
import type { Prefill } from './strategy.ts'
import { Uplink } from './uplink.ts'

export interface HatOptions extends ReopenOptions {
  /** Opens a session, resuming a cached prefix where the options name one. */
  open(signal: AbortSignal, session?: SessionOptions): Promise<LinkSession>
  /** How hidden states travel up; as int8 the answer may differ from the reference. */
  readonly wire: Wire
  /** Whether verifications are padded to one length, which hides the draft length; undefined: on encrypted links. */
  readonly padding: boolean | undefined
  readonly prefill: Prefill
  /** Prefixes that bridges have cached; undefined: none are resumed or cached. */
  readonly prefixes: PrefixMemory | undefined
  readonly dims: Dims
  readonly input: Part
  readonly head: SharedHead
  /** Records the times of this device's steps. */
  readonly speed: DeviceSpeed
  createDrafter(sampling: Sampling): Drafter | TreeDrafter
  /** η of HAT Eq. 5. */
  readonly threshold: number
  /** Whether drafts end where another token is not worth its time, in place of η. */
  readonly pacedDrafts: boolean
  /** Maximum tokens drafted per round, in addition to the bridge's limit. */
  readonly draftLimit: number
  /** Whether to draft ahead during verifications. */
  readonly draftAhead: boolean
  /** Where drafting ahead branches. */
  readonly branching: Branching
}

export interface HatRequest {
  /** A client never resumes the prefix of another client. */
  readonly client: string
  readonly prompt: readonly number[]
  /** The answer so far, with which `prompt` ends: penalties count its tokens. Default: a new answer. */
  readonly answered?: readonly number[]
  readonly maxTokens: number
  readonly sampling: Sampling
  /** Likeliest tokens that are reported beside each choice; undefined: no log probabilities. */
  readonly logprobs?: number | undefined
  /** Tokens that end the answer, of which they are part. */
  readonly eos: readonly number[]
  /** Tokens per second that the reader takes, > 0; undefined: unknown. */
  readonly tokensPerS?: number | undefined
  /** Called when the answer waits for a bridge, because its session was lost. */
  readonly onWaiting?: (() => void) | undefined
}

/** Tokens that became certain at once: the first after prefill, then those of each verification. */
export interface HatRound {
  readonly tokens: readonly number[]
  /** Of each token, where the request asks for them. */
  readonly logprobs?: readonly TokenLogprobs[]
  readonly drafted: number
  readonly accepted: number
  /** Of the session up to here. */
  figures(): EndpointFigures
}

/**
 * One private answer by the split model (HAT): prefill in chunks, then rounds of drafting on the device and verifying at
 * the bridge. Ends at an end-of-text token or after `maxTokens`. If link or bridge fails, the answer continues in another
 * session with the same tokens. On abort, or when the iteration is left, the current step ends and both sides free their KV.
 * @throws BrimError CONTEXT_OVERFLOW, REQUEST_INVALID before any work; OUT_OF_MEMORY, RUNTIME_FAILED, CANCELED, LINK_LOST; what `open` throws
 */
export async function* answerByHat(
  options: HatOptions,
  request: HatRequest,
  signal: AbortSignal,
): AsyncGenerator<HatRound, void> {
  answerBudget(request.prompt, request.maxTokens, options.dims)
  const { prefixes, wire, padding } = options
  const resume = prefixes?.find(request.client, request.prompt)
  const session = await openFirst(options, { resume, wire }, signal).catch((error: unknown) => {
    throw signal.aborted ? canceled(signal, error) : error
  })
  if (resume && session.held === 0 && session.bridge === resume.bridge) prefixes?.forget(resume.handle)
  const stream = new DeviceStream(options.input, options.dims.hidden, request.prompt.length)
  const openAnother = (avoid: string | undefined) =>
    reopen({ ...options, open: (until) => options.open(until, { wire, avoid }) }, signal, request.onWaiting)
  const verifyRowsAt = ({ bridge, draftLimit }: LinkSession) =>
    (padding ?? bridge.startsWith('wss:')) ? Math.min(options.draftLimit, draftLimit) + 1 : undefined
  const uplink = new Uplink(session, stream.shallow, openAnother, verifyRowsAt)
  const close = () => uplink.close()
  signal.addEventListener('abort', close, { once: true })
  let drafter: Drafter | TreeDrafter | undefined
  let hat: HatSession | undefined
  try {
    drafter = options.createDrafter(request.sampling)
    hat = new HatSession(options, request, uplink, stream, drafter, session.held, signal)
    yield* hat.run()
  } catch (error) {
    throw signal.aborted ? canceled(signal, error) : error
  } finally {
    signal.removeEventListener('abort', close)
    if (resume && session.moved) prefixes?.forget(resume.handle)
    const verified = hat?.verified ?? 0
    if (prefixes && !signal.aborted && verified >= minPrefixTokens) {
      const ids = stream.ids.slice(0, verified)
      void uplink.closeAndCache(verified).then((cached) => {
        if (cached) prefixes.remember(request.client, ids.slice(0, cached.length), cached)
      })
    } else {
      uplink.close()
    }
    drafter?.release()
    stream.release()
  }
}

/** Opens the first session. It is retried if the link fails meanwhile, but not if there is no bridge at all. */
async function openFirst(options: HatOptions, session: SessionOptions, signal: AbortSignal): Promise<LinkSession> {
  try {
    return await options.open(signal, session)
  } catch (error) {
    if (signal.aborted || !isLinkFailure(error)) throw error
    return reopen({ ...options, open: (until) => options.open(until, session) }, signal)
  }
}

/** The error of a canceled answer, whatever failed because of it or at the same time. */
function canceled({ reason }: AbortSignal, cause?: unknown): BrimError {
  const isNamed = reason instanceof BrimError && reason.code === 'CANCELED'
  return isNamed ? reason : new BrimError('CANCELED', 'the answer was canceled', { cause })
}

class HatSession {
  /** Positions that both sides hold; undefined while frames are in flight. */
  verified: number | undefined
  readonly #options: HatOptions
  readonly #request: HatRequest
  readonly #uplink: Uplink
  readonly #stream: DeviceStream
  readonly #drafter: Drafter | TreeDrafter
  readonly #drafting: Drafting
  readonly #signal: AbortSignal
  readonly #held: number
  readonly #counters = new RoundCounters()

  constructor(
    options: HatOptions,
    request: HatRequest,
    uplink: Uplink,
    stream: DeviceStream,
    drafter: Drafter | TreeDrafter,
    held: number,
    signal: AbortSignal,
  ) {
    this.#options = options
    this.#request = request
    this.#uplink = uplink
    this.#stream = stream
    this.#drafter = drafter
    this.#held = held
    this.#signal = signal
    const { speed, clock, threshold, pacedDrafts: paced, draftAhead: ahead, branching, dims } = options
    this.#drafting = new Drafting({
      drafter,
      stream,
      speed,
      clock,
      threshold,
      paced,
      eos: request.eos,
      ahead: ahead && options.draftLimit > 0,
      branching,
      contextLimit: dims.contextLimit,
      checkCanceled: () => this.#checkCanceled(),
    })
  }

  async *run(): AsyncGenerator<HatRound, void> {
    const { prompt, maxTokens, eos, tokensPerS } = this.#request
    const { clock } = this.#options
    const reader = tokensPerS === undefined ? undefined : new Reader(tokensPerS, maxTokens, clock.nowMs())
    const first = await this.#prefill()
    let pending = first.token
    this.#counters.first()
    this.verified = prompt.length
    reader?.deliver(1, clock.nowMs())
    yield { ...roundOf([first]), drafted: 0, accepted: 0, figures: () => this.#figures() }
    while (this.#counters.tokens < maxTokens && !eos.includes(pending)) {
      this.verified = undefined
      const startedMs = clock.nowMs()
      const { failovers } = this.#uplink
      const position = prompt.length + this.#counters.tokens - 1
      const limit = this.#draftLimit(position)
      const draft = await this.#drafting.draft(pending, limit, this.#maxDrafted, rowS(this.#roundTrip(1)))
      if (reader) this.#uplink.report(reader.tokensPerS, unreadOf(reader, clock.nowMs()))
      const choices = await this.#verify(position, draft, limit)
      const { path, tokens } = acceptDraft(draft, (node) => choices[node + 1]!.token)
      this.#uplink.keepRows([0, ...path.map((node) => node + 1)])
      this.#drafting.settle(position, path, tokens.at(-1)!)
      const end = tokens.findIndex((token) => eos.includes(token))
      const added = end < 0 ? tokens : tokens.slice(0, end + 1)
      this.#counters.round(added.length, draft.tokens.length, path.length)
      // The time of a failover is not the drafter's.
      if (this.#uplink.failovers === failovers) this.#drafter.roundEnded?.(added.length, (clock.nowMs() - startedMs) / 1_000)
      pending = added.at(-1)!
      this.verified = position + 1 + path.length
      reader?.deliver(added.length, clock.nowMs())
      const accepted = [root, ...path].slice(0, added.length).map((node) => choices[node + 1]!)
      yield { ...roundOf(accepted), drafted: draft.tokens.length, accepted: path.length, figures: () => this.#figures() }
    }
  }

  #figures(): EndpointFigures {
    const { bytesUp, bytesDown, wideRows, failovers, session } = this.#uplink
    const { prefillTokensPerS = null, draftStepS } = this.#options.speed
    const { upBytesPerS = null, downBytesPerS = null } = session.rates
    return {
      ...this.#counters.figures,
      wire: this.#options.wire,
      drafting: this.#drafter.report?.() ?? null,
      ahead: this.#drafting.aheadFigures,
      reusedTokens: this.#held,
      bytesUp,
      bytesDown,
      wideRows,
      failovers,
      rates: {
        upBytesPerS,
        downBytesPerS,
        prefillTokensPerS,
        draftStepMs: draftStepS === undefined ? null : draftStepS * 1_000,
      },
    }
  }

  /** @returns the first token of the answer */
  async #prefill(): Promise<Choice> {
    const { prompt } = this.#request
    // The device computes the cached prefix too: decoding needs its KV, and another bridge would need its rows.
    const { frameTokens } = this.#uplink.session
    for (let from = 0; from < this.#held; from += frameTokens) {
      await this.#feedTimed(prompt.slice(from, Math.min(from + frameTokens, this.#held)))
      await this.#drafter.catchUp(this.#stream)
    }
    if (this.#options.prefill === 'chunked') await this.#sendChunks()
    else await this.#sendWhole(this.#options.prefill === 'whole-all')
    const [first] = await this.#choose(prompt.length - 1, 1)
    return first!
  }

  /** The device computes a chunk while the bridge computes the one before. Only the last position's deep state comes back. */
  async #sendChunks(): Promise<void> {
    const { prompt } = this.#request
    for (let from = this.#held, to: number; from < prompt.length; from = to) {
      const { chunkTokens, frameTokens } = this.#uplink.session
      to = from + nextChunk(prompt.length - from, chunkTokens, frameTokens)
      await this.#feedTimed(prompt.slice(from, to))
      await this.#uplink.send(from, to, to === prompt.length ? 1 : 0)
      await this.#drafter.catchUp(this.#stream)
    }
  }

  /** The baselines: the device computes the whole prompt before it sends any. @param all whether all deep states come back */
  async #sendWhole(all: boolean): Promise<void> {
    const { prompt } = this.#request
    const { frameTokens } = this.#uplink.session
    await this.#feedTimed(prompt.slice(this.#held))
    for (let from = this.#held; from < prompt.length; from += frameTokens) {
      const to = Math.min(from + frameTokens, prompt.length)
      await this.#uplink.send(from, to, all ? to - from : to === prompt.length ? 1 : 0)
    }
    await this.#drafter.catchUp(this.#stream)
  }

  /** Maximum path of a draft after the token at this position. */
  #draftLimit(position: number): number {
    const remaining = this.#request.maxTokens - this.#counters.tokens
    return maxDraftTokens(this.#maxDrafted, remaining, position, this.#options.dims.contextLimit)
  }

  /** Maximum tokens of a draft, all paths together. */
  get #maxDrafted(): number {
    return Math.min(this.#options.draftLimit, this.#uplink.session.draftLimit)
  }

  /** Sends the rows of the pending token and of the draft, and drafts ahead meanwhile. @returns the LLM's choice after each */
  async #verify(position: number, { tokens, parents }: DraftTree, limit: number): Promise<Choice[]> {
    const rows = 1 + tokens.length
    const branches = parents.some((parent, node) => parent !== node - 1)
    await this.#uplink.send(position, position + rows, rows, branches ? [-1, ...parents.map((parent) => parent + 1)] : [])
    let isOver = false
    const answered = this.#uplink.settle().finally(() => {
      isOver = true
    })
    // It is awaited below, unless drafting ahead fails first.
    answered.catch(() => {})
    await this.#drafting.draftAhead(this.#roundTrip(rows), limit, () => isOver)
    return this.#choose(position, rows, answered)
  }

  #roundTrip(rows: number): RoundTrip {
    const { rates, wire } = this.#uplink.session
    const { upBytesPerS = Number.POSITIVE_INFINITY, downBytesPerS = Number.POSITIVE_INFINITY, rttS, cloudS } = rates
    const bytesPerToken = rowBytes(wire, this.#options.dims.hidden)
    // The bridge's waiting and computing are measured as one time.
    return { rows, bytesPerToken, upBytesPerS, downBytesPerS, rttS, waitS: 0, computeS: cloudS }
  }

  /** Waits for the deep rows in flight. @returns the LLM's choice after each of the last `count`, the first at row `from` */
  async #choose(from: number, count: number, returned: Promise<States> = this.#uplink.settle()): Promise<Choice[]> {
    const all = await returned
    this.#checkCanceled()
    const deep = sliceStates(all, all.rows - count, all.rows)
    this.#stream.deep.append(deep)
    return this.#options.head.read(deep, (logits, at) => this.#chooseAfter(from + at, logits))
  }

  /** A row's path holds the prompt and then the answer, as far as the drafts on it are right. */
  #chooseAfter(row: number, logits: Float32Array): Choice {
    const { prompt, answered = [] } = this.#request
    const { ids, rows } = this.#stream
    const path = rows.pathTo(row)
    const newTokens = [...ids.slice(prompt.length, path.line), ...path.rows.map((at) => ids[at]!)]
    return choose(logits, this.#request, path.line + path.rows.length, [...answered, ...newTokens])
  }

  /** Feeds prompt tokens and measures their rate, which the bridge needs for the chunk size. */
  async #feedTimed(tokens: readonly number[]): Promise<void> {
    const { clock, speed } = this.#options
    const startedMs = clock.nowMs()
    this.#checkCanceled()
    await this.#stream.feed(tokens)
    speed.recordPrefill(tokens.length, (clock.nowMs() - startedMs) / 1_000)
  }

  #checkCanceled(): void {
    if (this.#signal.aborted) throw canceled(this.#signal)
  }
}

/** What a round adds to the answer. */
function roundOf(choices: readonly Choice[]): Pick<HatRound, 'tokens' | 'logprobs'> {
  const logprobs = choices.flatMap((choice) => choice.logprobs ?? [])
  return { tokens: choices.map(({ token }) => token), ...(logprobs.length > 0 && { logprobs }) }
}
