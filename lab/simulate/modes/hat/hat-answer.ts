import type { Random } from '../../../../core/kit/base/random.ts'
import { conditionsOf } from '../../../../core/policy/hat/hat-conditions.ts'
import { HatMachine } from '../../../../core/policy/hat/hat-machine.ts'
import type { HatAction, HatComputation, HatInput, HatRules } from '../../../../core/policy/hat/hat-steps.ts'
import type { Simulation } from '../../kernel/simulation.ts'
import type { HatSettings } from '../../scenario/hat-settings.ts'
import type { Answer } from '../../world/answer.ts'
import type { DeviceParts } from './device-parts.ts'
import { type DraftProcess, type TreeProcess, treeOf } from './draft-process.ts'
import { DraftedRows } from './drafted-rows.ts'
import type { HatDevice } from './hat-device.ts'
import type { SimulatedSession } from './simulated-session.ts'

export interface HatAnswerOptions {
  readonly simulation: Simulation
  readonly device: HatDevice
  readonly parts: DeviceParts
  readonly session: SimulatedSession
  readonly settings: Pick<
    HatSettings,
    'growingChunks' | 'draftLimit' | 'threshold' | 'draftAhead' | 'alternatives' | 'alternativeShare' | 'padding'
  >
  readonly prefill: HatRules['prefill']
  /** Undefined: one token per round. */
  readonly drafts: DraftProcess | TreeProcess | undefined
  readonly random: Random
  compute(seconds: number, done: () => void): void
}

/** What is to be answered: an answer of its own, or a part of one. */
export interface SplitAnswer extends Pick<Answer, 'work' | 'tokens' | 'reader' | 'deliver'> {
  readonly request: Pick<Answer['request'], 'promptTokens' | 'outputTokens' | 'sharedTokens'>
  /** @param refusal why it was not answered */
  end(refusal?: string): void
}

/** One answer by the split model: what the machine decides, with the costs of device and link. */
export function answerBySplit(answer: SplitAnswer, options: HatAnswerOptions): void {
  const { simulation, device, parts, session, settings, prefill, drafts, random, compute } = options
  const { draftLimit } = settings
  const { promptTokens, outputTokens } = answer.request
  const { work } = answer
  const chains = drafts && 'next' in drafts ? drafts : undefined
  const trees = drafts && 'right' in drafts ? drafts : undefined
  const rules: HatRules = {
    ...settings,
    threshold: settings.threshold ?? undefined,
    history: device.speed.drafts,
    prefill,
    promptTokens,
    maxTokens: outputTokens,
    contextLimit: Number.POSITIVE_INFINITY,
    draftsTrees: trees !== undefined,
    draftLimit: drafts ? draftLimit : 0,
    bytesPerToken: session.rowBytes,
  }
  const machine = new HatMachine(rules)
  const conditions = conditionsOf({
    session: () => session,
    speed: device.speed,
    rules,
    isPadded: () => settings.padding && drafts !== undefined,
    mayDraftAhead: () => true,
  })
  const rows = new DraftedRows(promptTokens)
  const others = Array.from({ length: settings.alternatives }, () => false)
  let roundMs = 0
  let repliedMs = 0
  let treeRight = 0

  const hardware = () => device.device.hardware

  function tell(input: HatInput): void {
    for (const action of machine.handle(input, simulation.nowMs)) carryOut(action)
  }

  function carryOut(action: HatAction): void {
    switch (action.kind) {
      case 'exchange':
        exchange(action)
        break
      case 'measured':
        device.speed.record(action.steps)
        break
      case 'gather':
        rows.gather(action.keep, action.rows)
        break
      case 'deliver':
        deliver(action)
        break
      case 'end':
        device.speed.drafts = machine.history
        session.close()
        answer.end()
        break
      case 'report':
      case 'roundEnded':
        return
      case 'reopen':
      case 'lost':
        throw new Error('a simulated session is never lost')
      default:
        run(action)
    }
  }

  function exchange(action: Extract<HatAction, { kind: 'exchange' }>): void {
    const verifies = action.from >= promptTokens
    if (verifies) work.draftingS += (simulation.nowMs - roundMs) / 1_000
    session.exchange(action, ({ upS, cloudS, downS }) => {
      if (verifies) {
        repliedMs = simulation.nowMs
        work.uplinkS += upS
        work.cloudS += cloudS
        work.downlinkS += downS
      }
      tell({ conditions, kind: 'replied', frame: action.frame, rows: action.returned })
    })
    tell({ conditions, kind: 'sent' })
  }

  function run(computation: HatComputation): void {
    switch (computation.kind) {
      case 'feed':
        compute(parts.inputS(hardware(), computation.rows, computation.context), () => {
          rows.feed(computation.tokens, computation.rows, computation.parents)
          tell({ conditions, kind: 'fed' })
        })
        break
      case 'catchUp': {
        const caughtUp = () => tell({ conditions, kind: 'caughtUp' })
        if (chains) compute(parts.adapterS(hardware(), computation.rows, computation.context), caughtUp)
        else caughtUp()
        break
      }
      case 'guess':
        compute(parts.guessS(hardware(), computation.after.length, computation.context), () => guess(computation.after.length))
        break
      case 'guessTree':
        compute(parts.medusaS(hardware()), () => {
          treeRight = Math.min(trees!.right(random), computation.maxDepth)
          tell({ conditions, kind: 'guessedTree', parents: treeOf(computation.maxDepth) })
        })
        break
      case 'accept':
        compute(parts.outputS(hardware(), computation.rows), () => accept(computation))
        break
      default:
        computation satisfies never
    }
  }

  function guess(branches: number): void {
    const drafted = Array.from({ length: branches }, () => chains!.next(random))
    rows.guess(drafted)
    const guesses = drafted.map(({ topProbability }) => [
      { source: 'adapter' as const, probability: topProbability, endsText: false, alternatives: others },
    ])
    tell({ conditions, kind: 'guessed', guesses })
  }

  function accept({ position, rows: count }: Extract<HatComputation, { kind: 'accept' }>): void {
    const right = Math.min(treeRight, count - 1)
    const acceptance = trees
      ? { path: Array.from({ length: right }, (_, node) => node), tokens: 1 + right, endsText: false }
      : rows.accept(position, count - 1, settings.alternativeShare, random)
    treeRight = 0
    if (position >= promptTokens) work.choosingS += (simulation.nowMs - repliedMs) / 1_000
    tell({ conditions, kind: 'accepted', acceptance })
  }

  function deliver({ tokens, drafted }: Extract<HatAction, { kind: 'deliver' }>): void {
    if (machine.counters.rounds > 0) {
      work.rounds += 1
      work.draftedTokens += drafted
      work.gainedTokens += tokens
    }
    work.deviceOutputTokens += tokens
    work.serverOutputTokens += tokens
    answer.deliver(tokens)
    roundMs = simulation.nowMs
    tell({ conditions, kind: 'taken' })
  }

  const { held } = session
  work.devicePromptTokens = promptTokens
  work.serverPromptTokens = promptTokens - held
  session.open()
  tell({ conditions, kind: 'opened', held })
}
