import type { Random } from '../../../../core/base/random.ts'
import type { DeviceSpeed } from '../../../../core/policy/hat/device-speed.ts'
import { type Branching, plannedStepsAhead, type RoundTrip, rowS } from '../../../../core/policy/hat/draft-ahead-steps.ts'
import { RoundPace } from '../../../../core/policy/hat/draft-pace.ts'
import type { DraftLimits } from '../../../../core/policy/hat/draft-stop.ts'
import type { Simulation } from '../../kernel/simulation.ts'
import {
  type Chain,
  type DraftedToken,
  type DraftProcess,
  emptyChain,
  extended,
  isComplete,
  rightTokens,
} from './draft-process.ts'

export interface DraftingOptions {
  readonly simulation: Simulation
  readonly process: DraftProcess
  readonly random: Random
  readonly speed: DeviceSpeed
  /** η of Eq. 5. */
  readonly threshold: number
  /** Whether drafts end by the pace of rounds in place of η. */
  readonly paced: boolean
  /** Whether drafts are prepared during verifications. */
  readonly ahead: boolean
  /** Branches of drafting ahead beside the draft's own. */
  readonly alternatives: number
  /** Whether each token of a draft has such branches, or its last one alone. */
  readonly branching: Branching
  /** How often one of them is the correction of a rejected token that has them. */
  readonly alternativeShare: number
  /** Computes the first layers for `rows` rows after `context` positions. */
  feed(rows: number, context: number, done: () => void): void
  /** Computes adapter and head for as many rows, then the first layers for the tokens that they choose. */
  step(rows: number, context: number, done: () => void): void
}

/** What drafts ahead of a verification: the branch of the draft's last token, and those of the alternatives to it. */
interface Ahead {
  readonly branches: Chain[]
  steps: number
  isOver: boolean
}

/** The drafts of one answer, as agent/hat/drafting.ts makes them. Mutable. */
export class Drafting {
  readonly #options: DraftingOptions
  #draft: Chain = emptyChain
  #ahead: Ahead | undefined
  /** Drafted ahead, after the token that is pending now. */
  #prepared: Chain | undefined
  readonly #pace = new RoundPace()
  #roundMs = 0

  constructor(options: DraftingOptions) {
    this.#options = options
  }

  /**
   * Feeds the pending token at `position` and drafts after it, or continues the draft prepared ahead.
   * @param linkS seconds that a row is on its way up and down
   */
  draft(position: number, limit: number, linkS: number, done: (drafted: number) => void): void {
    const { simulation, speed, feed, step } = this.#options
    this.#roundMs = simulation.nowMs
    const limits = this.#limits(limit, linkS + (speed.draftStepS ?? 0))
    const prepared = this.#prepared
    const before = Math.min(prepared?.tokens.length ?? 0, limit)
    this.#prepared = undefined
    this.#draft = prepared ? { ...prepared, tokens: prepared.tokens.slice(0, before) } : emptyChain
    let startedMs = simulation.nowMs
    const next = (): void => {
      const { tokens } = this.#draft
      if (tokens.length >= limit || isComplete(this.#draft, limits)) {
        speed.recordDraft(tokens.length - before, (simulation.nowMs - startedMs) / 1_000)
        done(tokens.length)
      } else {
        step(1, position + tokens.length, () => {
          this.#draft = extended(this.#draft, this.#drawn(), limits)
          next()
        })
      }
    }
    const start = () => {
      startedMs = simulation.nowMs
      next()
    }
    if (prepared) start()
    else feed(1, position, start)
  }

  /** Drafts ahead during the verification of the draft, for the steps that fit into it (Eq. 6) and no longer than it lasts. */
  draftAhead(position: number, limit: number, trip: RoundTrip): void {
    const { ahead, alternatives, branching, speed, feed } = this.#options
    if (!ahead || limit === 0) return
    const maxSteps = plannedStepsAhead(trip, speed)
    if (maxSteps === 0) return
    const drafted = this.#draft.tokens.length
    const others = alternatives * (branching === 'each' ? drafted : Math.min(1, drafted))
    const run: Ahead = { branches: Array.from({ length: 1 + others }, () => emptyChain), steps: 0, isOver: false }
    this.#ahead = run
    const tip = position + drafted
    const limits = this.#limits(limit, rowS(trip))
    if (others > 0) feed(others, tip, () => this.#stepAhead(run, maxSteps, tip, limits))
    else this.#stepAhead(run, maxSteps, tip, limits)
  }

  /** The verification has ended. @returns the draft's right tokens */
  verified(): number {
    if (this.#ahead) this.#ahead.isOver = true
    return rightTokens(this.#draft.tokens)
  }

  /** After a verification: what was drafted ahead of the correction or bonus token is the beginning of the next draft. */
  settle(right: number): void {
    const seconds = (this.#options.simulation.nowMs - this.#roundMs) / 1_000
    this.#pace.record({ tokens: right + 1, seconds, drafted: this.#draft.tokens.length, accepted: right })
    const ahead = this.#ahead
    this.#ahead = undefined
    this.#prepared = ahead && this.#branchAfter(ahead, right)
  }

  #stepAhead(run: Ahead, left: number, tip: number, limits: DraftLimits): void {
    const { simulation, speed, step } = this.#options
    const active = run.branches.flatMap((branch, at) => (branch.ended ? [] : [at]))
    if (left === 0 || run.isOver || active.length === 0) return
    const startedMs = simulation.nowMs
    step(active.length, tip + run.steps, () => {
      // What the reply has overtaken is not known to be the answer's continuation.
      if (run.isOver) return
      run.steps += 1
      for (const at of active) {
        // The first token of the draft's own branch becomes the pending one.
        const limit = at === 0 ? limits.limit + 1 : limits.limit
        run.branches[at] = extended(run.branches[at]!, this.#drawn(), { ...limits, limit })
      }
      speed.recordAheadStep((simulation.nowMs - startedMs) / 1_000)
      this.#stepAhead(run, left - 1, tip, limits)
    })
  }

  #limits(limit: number, tokenS: number): DraftLimits {
    const { threshold, paced } = this.#options
    return { threshold, limit, pace: paced ? this.#pace.paceAt(tokenS) : undefined }
  }

  #branchAfter({ branches }: Ahead, right: number): Chain | undefined {
    const { random, alternatives, alternativeShare, branching } = this.#options
    const { length } = this.#draft.tokens
    const [own] = branches
    if (right === length) {
      const [bonus, ...rest] = own!.tokens
      if (!bonus?.isRight) return undefined
      return { tokens: rest, ended: own!.ended && rest.length > 0 }
    }
    const at = branching === 'each' ? right : right - length + 1
    const alternative = at >= 0 ? branches[1 + at * alternatives] : undefined
    return alternative && random.next() < alternativeShare ? alternative : undefined
  }

  #drawn(): DraftedToken {
    return this.#options.process.next(this.#options.random)
  }
}
