import { describe, expect, it } from 'vitest'
import { LinkRates } from '../../../../../core/policy/estimate/link-rates.ts'
import type { HatRules } from '../../../../../core/policy/hat/hat-steps.ts'
import { Simulation } from '../../../../../lab/simulate/kernel/simulation.ts'
import type { DeviceParts } from '../../../../../lab/simulate/modes/hat/device-parts.ts'
import type { ChanceToken } from '../../../../../lab/simulate/modes/hat/draft-process.ts'
import { answerBySplit } from '../../../../../lab/simulate/modes/hat/hat-answer.ts'
import { HatDevice } from '../../../../../lab/simulate/modes/hat/hat-device.ts'
import type { SimulatedSession } from '../../../../../lab/simulate/modes/hat/simulated-session.ts'
import { type AnswerWork, noWork } from '../../../../../lab/simulate/world/answer-record.ts'
import type { SimulatedDevice } from '../../../../../lab/simulate/world/simulated-device.ts'

/** Tokens of a drafter: certain or not, right or not. */
const tokens: Readonly<Record<string, ChanceToken>> = {
  R: { topProbability: 0.9, isRight: true },
  W: { topProbability: 0.9, isRight: false },
  r: { topProbability: 0.3, isRight: true },
  w: { topProbability: 0.3, isRight: false },
}

/** What a round has computed and sent, and the tokens that it has gained. */
interface ScriptedRound {
  readonly calls: readonly string[]
  readonly gained: number
}

interface Settings extends Partial<Pick<HatRules, 'threshold' | 'draftAhead' | 'draftLimit'>> {
  readonly alternatives?: number
  readonly alternativeShare?: number
  readonly outputTokens?: number
  /** From sending rows until their deep states arrive. */
  readonly replyMs?: number
}

/**
 * An answer to a prompt of 10 tokens, whose drafted tokens are scripted, uncertain and wrong after the script's end. Whatever
 * the device computes takes 5 ms, the round trip is expected to take 40 ms: as long as four steps of drafting.
 */
function roundsOf(
  script: string,
  {
    alternatives = 1,
    alternativeShare = 1,
    draftLimit = 8,
    threshold = 0.6,
    draftAhead = true,
    outputTokens = 12,
    replyMs = 1_000,
  }: Settings = {},
): { rounds: readonly ScriptedRound[]; work: AnswerWork } {
  const simulation = new Simulation(1)
  const rounds: ScriptedRound[] = []
  let calls: string[] = []
  const left = [...script]
  const costs =
    (what: string) =>
    (_: unknown, rows: number, context = 0) => {
      calls.push(`${what} ${rows} after ${context}`)
      return 0.005
    }
  const parts: DeviceParts = {
    inputS: costs('feed'),
    guessS: costs('guess'),
    adapterS: () => 0.005,
    outputS: () => 0.005,
    medusaS: () => 0.005,
  }
  const session = {
    rowBytes: 0,
    chunkTokens: 16,
    frameTokens: 64,
    draftLimit: 8,
    rates: new LinkRates(),
    held: 0,
    open: () => {},
    exchange({ from, to }, replied) {
      calls.push(`send ${to - from}`)
      simulation.after(replyMs, () => replied({ upS: 0, cloudS: 0, downS: 0 }))
    },
    close: () => {},
  } satisfies Partial<SimulatedSession> & Record<string, unknown>
  session.rates.recordRoundTrip(0.04)
  const work = noWork()
  let isOver = false
  answerBySplit(
    {
      request: { promptTokens: 10, outputTokens, sharedTokens: 0 },
      work,
      tokens: 0,
      reader: undefined as never,
      deliver(gained) {
        rounds.push({ calls, gained })
        calls = []
      },
      end() {
        isOver = true
      },
    },
    {
      simulation,
      device: new HatDevice({ link: { rttMs: 40 }, hardware: {} } as unknown as SimulatedDevice),
      parts,
      session: session as unknown as SimulatedSession,
      settings: {
        draftLimit,
        threshold,
        growingChunks: false,
        draftAhead,
        alternatives,
        alternativeShare,
        padding: false,
      },
      prefill: 'chunked',
      drafts: { next: () => tokens[left.shift() ?? 'w']! },
      random: { next: () => 0.5 },
      compute: (seconds, done) => void simulation.after(1_000 * seconds, done),
    },
  )
  simulation.advance(10_000)
  expect(isOver).toBe(true)
  return { rounds: rounds.slice(1), work }
}

const withoutAhead = { draftAhead: false } as const

describe('an answer on the virtual clock', () => {
  it('drafts up to the first uncertain token, or to the limit', () => {
    const [first] = roundsOf('RRwR', withoutAhead).rounds
    expect(first).toEqual({
      calls: [
        'feed 1 after 10',
        'guess 1 after 10',
        'feed 1 after 11',
        'guess 1 after 11',
        'feed 1 after 12',
        'guess 1 after 12',
        'feed 1 after 13',
        'send 4',
      ],
      gained: 3,
    })
    expect(roundsOf('RRRR', { ...withoutAhead, draftLimit: 2 }).rounds[0]!.gained).toBe(3)
  })

  it('continues from the branch of the alternative that corrects the last token', () => {
    // The draft Rw; then, for each step, the draft's own branch and the alternative's.
    const [first, second] = roundsOf('Rw' + 'Rr' + 'Rw' + 'R').rounds
    expect(first!.gained).toBe(2)
    // The alternative's branch ends with its first, uncertain token.
    expect(first!.calls.filter((call) => !call.startsWith('guess')).slice(3)).toEqual([
      'send 3',
      'feed 1 after 12',
      'feed 2 after 13',
      'feed 1 after 14',
      'feed 1 after 15',
    ])
    // So the next draft is ready.
    expect(second!.calls[0]).toBe('send 2')
  })

  it('drafts anew where the correction is none of the alternatives, or of an earlier token', () => {
    expect(roundsOf('Rw' + 'RrRwRr', { alternativeShare: 0 }).rounds[1]!.calls[0]).toBe('feed 1 after 12')
    const [first, second] = roundsOf('WRw' + 'RrRwRr').rounds
    expect(first!.gained).toBe(1)
    expect(second!.calls[0]).toBe('feed 1 after 11')
  })

  it('continues after the bonus token where it is the one drafted ahead, which then belongs to no draft', () => {
    const settings = { alternatives: 0, draftLimit: 3 }
    const [first, second] = roundsOf('Rr' + 'RRRRRR', settings).rounds
    expect(first!.gained).toBe(3)
    // Its own branch may have one token more than a draft: the first becomes the pending one.
    expect(first!.calls.filter((call) => call.startsWith('guess'))).toHaveLength(2 + 4)
    expect(second!.calls[0]).toBe('send 4')
    expect(roundsOf('Rr' + 'WRRRRR', settings).rounds[1]!.calls[0]).toBe('feed 1 after 13')
  })

  it('stops drafting ahead with the reply: what a guess would add then is lost', () => {
    // Two steps are over, the third has guessed.
    const [first, second] = roundsOf('Rr' + 'RRRRRR', { alternatives: 0, replyMs: 22 }).rounds
    expect(first!.calls.filter((call) => call.startsWith('guess'))).toHaveLength(2 + 3)
    expect(first!.calls.at(-1)).toBe('guess 1 after 14')
    // Of the two tokens the first is the bonus.
    expect(second!.calls[0]).toBe('guess 1 after 14')
  })

  it('never passes its end, and counts its rounds', () => {
    const { rounds, work } = roundsOf('R'.repeat(100), { ...withoutAhead, outputTokens: 7 })
    expect(rounds.map(({ gained }) => gained)).toEqual([6])
    expect(work).toMatchObject({ rounds: 1, draftedTokens: 5, gainedTokens: 6, deviceOutputTokens: 7 })
  })
})
