import type { BenchDocument, BenchReport } from '../../frame/bench.ts'
import { machineText } from '../../frame/page.ts'
import { toDigits, toPercent } from '../../frame/tables.ts'
import { readingTokensPerS } from '../../simulate/paper/disco/profiles.ts'
import { bytesPerToken, maxOutputTokens } from './data.ts'
import { discoFigure } from './figure.ts'
import { heavyTail, isHeavy } from './figures.ts'
import { liveBudget, liveTrace, timeScale } from './live.ts'
import type { Plan } from './plan.ts'
import { lessons } from './replay-seed.ts'
import { liveRuns, tablesOf, tracesOf, wireRuns } from './tables.ts'
import type { WireFigures } from './wire.ts'
import { meanGapMs } from './workload.ts'

export const discoReport: BenchReport = {
  title: 'DiSCo and its baselines',
  contents: 'every setting with its figures of each seed, and every answer of the live run beside its replay',
  figure: discoFigure,
  keptRuns: (document) => [...liveRuns(document), ...wireRuns(document)],
  figureText: 'TTFT by budget for heavy-tailed and steady traces, and cost by budget with and without migration',
  tables: tablesOf,
  findings,
  conditions: (document) => [clockText(document), replayText(document), liveText(document)].join('\n\n'),
}

const percent = (share: number | null | undefined) => toPercent(share, 1)

function findings(document: BenchDocument): string {
  const { summary } = document
  const wire = document.conditions.wire as WireFigures
  const heavy = tracesOf(document).filter(isHeavy)
  return [
    `- \`p99TtftCutServer\` and \`p99TtftCutDevice\` are means over budgets, devices and the traces ${heavy.map(({ name }) => name).join(', ')}:
  those whose P99 TTFT is at least ${heavyTail} times the median. The names that end in "Steady" are of the other traces, those in "Azure"
  of the longer prompts of the Azure data. The paper: 0.11 to 0.52. No dispatcher within the same budgets could
  reach more than ${toDigits(summary.p99TtftCutServerMost, 3)} and ${toDigits(summary.p99TtftCutDeviceMost, 3)} (\`…Most\`), even one that knew the start of every request beforehand.`,
    `- \`meanTtftOverStochastic\` is the largest, over budgets from 0.2 and both limited sides, of the mean over traces and devices. In no
  single setting is it above ${toDigits(summary.meanTtftOverStochasticWorst, 3)} (\`meanTtftOverStochasticWorst\`). With Azure's prompts it is ${toDigits(summary.meanTtftOverStochasticAzure, 2)}:
  a device needs ten seconds and more for their prefill, so that TTFT depends on the tokens that the server is spared; the threshold of
  Algorithm 3 leaves a part of the budget unspent, as many prompts have the same length.`,
    `- \`migrationCostCut\` reads "up to" as the paper does: the smaller of the largest cuts with the server limited (paper: 83.6 %) and with the
  device limited (72.7 %), where every answer has the paper's limit of ${maxOutputTokens} tokens. With the lengths of the Alpaca answers, of which
  less than half reach it, the largest cuts are ${percent(summary.migrationCostCutServerOwnLengths)} and ${percent(summary.migrationCostCutDeviceOwnLengths)}: what both sides have spent on the prompt by then cannot be saved.
  An answer that moves right after its first token, at a length known beforehand, would save ${percent(summary.migrationCostCutServerOwnMost)} and ${percent(summary.migrationCostCutDeviceOwnMost)} at most. Where the
  side that decodes for less wins most races anyway, little can be saved: the means are ${percent(summary.migrationCostCutServerMean)} and ${percent(summary.migrationCostCutDeviceMean)}.`,
    `- \`p99TbtS\` is the largest mean of a trace and a limited side in the table of migrated answers. ${toDigits(summary.delayedTokens, 2)} tokens per migration are
  delivered late, where the paper delays 3 to 17: a target that has no token when the buffer runs low is given up, and the source goes
  on (column "given up").`,
    `- \`shareOverBudget\` is the largest excess over b of the limited side's share of the prompt tokens, in any setting of DiSCo: plans keep
  to b in expectation, by what was known, and make up for what earlier answers have used.`,
    `- \`budgetOverWire\` is what an agent has booked over what went over the wire, at a server that counts by the demonstration tokenizer. It packs one
  or four tokens into an event, and counts for the first two thirds of its answers. \`budgetOffWire\` is its distance from 1. \`budgetOverWireLeft\` is
  the same of answers whose readers leave, which count what had come by then and what the server may have written in a round trip. \`overCap\` is the largest part by which a budget was
  exceeded, also by 200 requests at once and by a server that misreports all. \`maxGapS\` is the longest wait of a reader who has read all, where the
  server falls silent in the middle of an answer.
- Token ids of the demonstration tokenizer (${wire.vocabulary} tokens, ${wire.bitsPerId} bits, ${wire.bytesPerToken.toFixed(2)} bytes of text each) take ${percent(wire.bitsCut)} less than the text of the
  Alpaca answers, in whole bytes ${percent(wire.bytesCut)}. The paper has 54.4 % and 35.6 % with 100,000 tokens in 17 and 24 bits.`,
  ].join('\n')
}

function clockText(document: BenchDocument): string {
  const { replayCommit } = document.conditions
  return `${machineText(document)}. The replay has a virtual clock: the machine does not
change it.${replayCommit === undefined ? '' : ` It is of commit ${replayCommit}.`}`
}

function replayText({ conditions }: BenchDocument): string {
  const { seeds, ttft, cost } = conditions.plan as Plan
  return `- The replay runs the agent's own code: \`AnswerDispatcher\`, its estimates of servers and lengths, and \`AnswerController\`, which races, paces and
  migrates. Only sides and clock are simulated. Device: k·l, then a token per 1 / decode rate (the paper's three profiles). Server: TTFT and
  gap of a request of the trace, drawn with replacement; a second request of the same answer has a latency of its own.
- ${seeds} seeds, ${ttft.alpaca.requests} requests with Alpaca's lengths (${ttft.azure.requests} with Azure's) for TTFT, ${cost.requests} for cost, after ${lessons} that are not counted. They arrive by a
  Poisson process with a mean gap of ${meanGapMs / 1_000} s. Each is answered by a free device: answers do not wait for each other.
- A token of the Alpaca data is ${bytesPerToken.toFixed(2)} bytes, which follows from the paper's 17 bits and 54.4 %; answers end at ${maxOutputTokens} tokens. Failed
  requests of the traces are left out. The gaps within one request are equal: the traces have only their mean.
- F is learned on line and from the past alone, as an agent without help from its server learns it: of a server that was stopped before its
  first token it knows only how long that had been waited for.
- Stochastic dispatch gives a request to the limited side with probability b, and otherwise to the other side. A share of the limited side
  counts the prompts that it has begun, also those that it did not finish.
- The limited side is set, as in the paper: with its Qwen on the Xiaomi 14 and the prices of Command, the device is not the dearer side.
  Device energy costs 0.3 $ (server limited) or 5 $ (device limited) per 10¹⁵ FLOP; the paper prints "per million FLOPs".
- Readers take ${readingTokensPerS} tokens per second. TBT is the gap between two tokens as they are delivered, over answers that migrated. Where a server is slower than its
  reader (replicate_70b, together_13b), the reader waits with and without migration.
- The paper's intervals of DiffusionDB users are not replayed: that data is not at hand.`
}

function liveText({ conditions }: BenchDocument): string {
  const { liveRequests } = conditions.plan as Plan
  if (liveRequests === 0) return ''
  return `Live: three agents with DiSCo's two ways, a small model with the pace of the three devices and a server. HAT, which mode auto would try, too, is left out,
as it passes the proxy undelayed. The server is a bridge whose own model answers through
a proxy for each agent that delays tokens as ${liveTrace} did, all ${timeScale} times as fast. Two clusters one after the other (server, then device limited,
b = ${liveBudget}), in each ${liveRequests} requests per agent one after the other, at real sockets, read at ${(timeScale * readingTokensPerS).toFixed(2)} tokens/s. Each is replayed with its own latencies
and with what the agent had learned by then. \`liveOverReplay\` is the largest deviation from 1 in the last table.`
}
