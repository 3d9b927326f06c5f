import type { HatAction, HatInput } from '../../../core/policy/hat/hat-steps.ts'
import { decodeLine } from '../../../core/policy/recording.ts'
import type { ServingAction, ServingInput } from '../../../core/policy/serving/serving-events.ts'
import type { Passage } from '../../cluster/shaped-link.ts'
import { mean, sum } from '../../frame/statistics.ts'

/** The parts of a round, in the order in which they happen. */
export const roundParts = [
  /** Input layers of the pending token and of the draft. */
  'input',
  /** The drafter: adapter and head, or lookup. */
  'draft',
  /** From the first byte at the link to the last one behind it. */
  'uplink',
  /** The rows wait at the bridge for their step. */
  'queue',
  'middle',
  'downlink',
  /** A step of drafting ahead that the reply has overtaken. */
  'overtaken',
  /** Output part and choice. */
  'head',
  /** Frames, sockets, machines and the delivery of tokens: what the others leave. */
  'rest',
] as const
export type RoundPart = (typeof roundParts)[number]

/** Means over the rounds of some answers; times in µs. */
export interface RoundTimes {
  readonly rounds: number
  readonly rowsUp: number
  readonly acceptLength: number
  readonly wholeUs: number
  readonly partsUs: Readonly<Record<RoundPart, number>>
}

/** A line of a machine's recording after its first. */
interface Taken<Input, Action> {
  readonly atMs: number
  readonly input: Input
  readonly actions: readonly Action[]
}

/** The lines of each machine of this name in a recording, in the order of their beginning. */
function machinesOf<Input, Action>(text: string, name: string): Taken<Input, Action>[][] {
  const machines = new Map<number, Taken<Input, Action>[]>()
  for (const line of text.split('\n').filter(Boolean).map(decodeLine)) {
    const { id, machine } = line as { id: number; machine?: string }
    if (machine === name) machines.set(id, [])
    else if (machine === undefined) machines.get(id)?.push(line as Taken<Input, Action>)
  }
  return [...machines.values()]
}

/** A round as its device saw it; ms. */
interface DeviceRound {
  readonly rows: number
  readonly tokens: number
  readonly wholeMs: number
  readonly inputMs: number
  readonly draftMs: number
  readonly overtakenMs: number
  readonly headMs: number
}

type HatTaken = Taken<HatInput, HatAction>

/** The rounds of an answer: each from the delivery of the tokens before to that of its own. */
function roundsOf(taken: readonly HatTaken[]): (DeviceRound | undefined)[] {
  const starts = taken.flatMap(({ input, actions }, at) =>
    input.kind === 'taken' && !actions.some(({ kind }) => kind === 'end') ? [at] : [],
  )
  return starts.flatMap((from) => {
    const to = taken.findIndex(({ input }, at) => at > from && input.kind === 'taken')
    return to < 0 ? [] : [roundOf(taken.slice(from, to + 1))]
  })
}

/** Undefined where a failure has repeated something of it. */
function roundOf(taken: readonly HatTaken[]): DeviceRound | undefined {
  const [first, last] = [taken[0]!, taken.at(-1)!]
  const at = (has: (line: HatTaken) => boolean) => taken.findIndex(has)
  const acts = (kind: HatAction['kind']) => at(({ actions }) => actions.some((action) => action.kind === kind))
  const comes = (kind: HatInput['kind']) => at(({ input }) => input.kind === kind)
  const [sent, replied, accepting, accepted] = [acts('exchange'), comes('replied'), acts('accept'), comes('accepted')]
  if ([sent, replied, accepting, accepted].includes(-1) || comes('failed') >= 0 || comes('gap') >= 0) return undefined
  /** Before the rows are sent, each input follows the computation that the line before it has begun. */
  const spentBefore = (kinds: readonly HatInput['kind'][]) =>
    sum(taken.slice(1, sent + 1).map(({ input, atMs }, i) => (kinds.includes(input.kind) ? atMs - taken[i]!.atMs : 0)))
  const exchange = taken[sent]!.actions.find((action) => action.kind === 'exchange')!
  const delivered = taken[accepted]!.actions.find((action) => action.kind === 'deliver')
  return {
    rows: exchange.to - exchange.from,
    tokens: delivered?.tokens ?? 0,
    wholeMs: last.atMs - first.atMs,
    inputMs: spentBefore(['fed']),
    draftMs: spentBefore(['guessed', 'guessedTree']),
    overtakenMs: taken[accepting]!.atMs - taken[replied]!.atMs,
    headMs: taken[accepted]!.atMs - taken[accepting]!.atMs,
  }
}

/** Waiting and computing of each stream's rows at the bridge, in ms, frame by frame; by stream in the order of their opening. */
function framesAtBridge(taken: readonly Taken<ServingInput, ServingAction>[]): { queueMs: number; middleMs: number }[][] {
  const streams = new Map<number, { queueMs: number; middleMs: number }[]>()
  const arrivedMs = new Map<number, number>()
  const running = new Map<number, { atMs: number; streams: readonly number[] }>()
  for (const { atMs, input, actions } of taken) {
    if (input.kind === 'rows') arrivedMs.set(input.stream, atMs)
    if (input.kind === 'session opened' || input.kind === 'session resumed') streams.set(input.stream, [])
    if (input.kind === 'step ended') {
      const step = running.get(input.step)
      for (const stream of step?.streams ?? [])
        streams.get(stream)?.push({ queueMs: step!.atMs - arrivedMs.get(stream)!, middleMs: atMs - step!.atMs })
    }
    for (const action of actions)
      if (action.kind === 'begin') running.set(action.step, { atMs, streams: action.pieces.map(({ stream }) => stream) })
  }
  return [...streams.values()]
}

/** What was recorded while one device asked for answers, one after the other. */
export interface RecordedAnswers {
  /** Recordings of the agent and of the bridge, JSON lines. */
  readonly agent: string
  readonly bridge: string
  /** What passed the device's link during each of the last answers. */
  readonly passages: readonly (readonly Passage[])[]
  /** Bytes of one row: what is shorter is no frame of rows. */
  readonly rowBytes: number
}

/** Where the rounds of the last answers went; undefined without a round. */
export function roundTimesOf({ agent, bridge, passages, rowBytes }: RecordedAnswers): RoundTimes | undefined {
  const answers = machinesOf<HatInput, HatAction>(agent, 'hat').slice(-passages.length)
  const serving = machinesOf<ServingInput, ServingAction>(bridge, 'serving')
  const streams = serving.flatMap(framesAtBridge).slice(-passages.length)
  const rounds = answers.flatMap((taken, at) => {
    const own = roundsOf(taken)
    // Frames of the prompt come before those of the rounds.
    const frames = streams[at]!.slice(-own.length)
    const passed = (direction: Passage['direction']) =>
      passages[at]!.filter((each) => each.direction === direction && each.bytes >= rowBytes).slice(-own.length)
    const [up, down] = [passed('up'), passed('down')]
    return own.flatMap((round, i) => (round ? [{ ...round, ...frames[i]!, upMs: up[i]!.tookMs, downMs: down[i]!.tookMs }] : []))
  })
  if (rounds.length === 0) return undefined
  const meanOf = (value: (round: (typeof rounds)[number]) => number) => mean(rounds.map(value))!
  const us = (value: (round: (typeof rounds)[number]) => number) => 1_000 * meanOf(value)
  const parts = {
    input: us(({ inputMs }) => inputMs),
    draft: us(({ draftMs }) => draftMs),
    uplink: us(({ upMs }) => upMs),
    queue: us(({ queueMs }) => queueMs),
    middle: us(({ middleMs }) => middleMs),
    downlink: us(({ downMs }) => downMs),
    overtaken: us(({ overtakenMs }) => overtakenMs),
    head: us(({ headMs }) => headMs),
  }
  const wholeUs = us(({ wholeMs }) => wholeMs)
  return {
    rounds: rounds.length,
    rowsUp: meanOf(({ rows }) => rows),
    acceptLength: meanOf(({ tokens }) => tokens),
    wholeUs,
    partsUs: { ...parts, rest: wholeUs - sum(Object.values(parts)) },
  }
}
