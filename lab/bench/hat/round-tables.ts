import { againstCloud } from '../../../core/policy/hat/against-cloud.ts'
import type { BenchDocument, Table } from '../../frame/bench.ts'
import { distinct, select } from '../../frame/runs.ts'
import { tableOf, toDigits } from '../../frame/tables.ts'
import { acceptLengthOf, answersOf, runsOf, tbtOf, validRuns } from './figures.ts'
import { roundParts } from './round-times.ts'
import type { HatRun } from './runs.ts'
import type { StrategyName } from './strategies.ts'

/** HAT's column beside that of U-shape, part by part. */
export function roundTable(runs: readonly HatRun[]): Table {
  const times = (strategy: StrategyName) => select(runs, { measured: 'rounds', strategy })[0]?.roundTimes
  const [hat, uShape] = [times('hat'), times('u-shape')]
  const us = (value: number | undefined) => toDigits(value, 0)
  const rows = [
    ...roundParts.map((part) => ({ part, hat: us(hat?.partsUs[part]), uShape: us(uShape?.partsUs[part]) })),
    { part: 'whole round', hat: us(hat?.wholeUs), uShape: us(uShape?.wholeUs) },
    { part: 'rows sent', hat: toDigits(hat?.rowsUp, 2), uShape: toDigits(uShape?.rowsUp, 2) },
    { part: 'tokens', hat: toDigits(hat?.acceptLength, 2), uShape: toDigits(uShape?.acceptLength, 2) },
  ]
  return tableOf('Where a round goes, one device alone, short prompts, in µs', hat || uShape ? rows : [], [
    ['part', ({ part }) => part],
    ['hat', (row) => row.hat],
    ['u-shape', (row) => row.uShape],
  ])
}

/** When is drafting on a device slower than the cloud alone, and what does it buy? The cloud's tokens need no round trip each. */
export function cloudTable({ conditions, ...document }: BenchDocument): Table {
  const runs = runsOf(document)
  const cloudTokenS = Number(conditions.cloudTokenMs) / 1_000
  const computeS = (select(runs, { measured: 'rounds', strategy: 'hat' })[0]?.roundTimes?.partsUs.middle ?? Number.NaN) / 1e6
  const [loaded] = validRuns(runs, { measured: 'loaded', workload: 'short', strategy: 'hat' })
  const rows = distinct(loaded?.samples ?? [], 'device').flatMap((device) => {
    const own = answersOf(select(loaded!.samples, { device }), 'without loops')
    const [tokenMs, acceptLength] = [tbtOf(own), acceptLengthOf(own)]
    if (tokenMs === null || acceptLength === null || !(cloudTokenS > 0 && computeS > 0)) return []
    const round = { rttS: loaded!.rttMs / 1_000, acceptLength, computeS }
    return [{ device, tokenMs, acceptLength, against: againstCloud({ tokenS: tokenMs / 1_000, cloudTokenS, round }) }]
  })
  const title = 'HAT and the cloud alone, device by device, under load, short prompts'
  return tableOf(
    title,
    [...rows].sort((a, b) => a.device - b.device),
    [
      ['device', ({ device }) => String(device + 1)],
      ['accept length', ({ acceptLength }) => toDigits(acceptLength, 2)],
      ['ms per token', ({ tokenMs }) => toDigits(tokenMs, 1)],
      ['cloud alone', () => toDigits(1_000 * cloudTokenS, 1)],
      ['HAT over it', ({ against }) => toDigits(against.ratio, 2)],
      ['as fast up to an RTT of, ms', ({ against }) => toDigits(1_000 * (against.maxRttS ?? 0), 1)],
      ['sessions per cloud, times', ({ against }) => toDigits(against.sessions, 2)],
    ],
  )
}
