import { bytes, compact } from '../commands/figures.ts'
import { dollars, duration, Facts, Table } from './parts.tsx'
import { arrivalsOf, bufferOf, timeParts, writersOf } from './trace.ts'
import type { Turn } from './turn.ts'

interface Props {
  readonly turn: Turn
}

/** Where the reader has not said its rate: about that of silent reading. */
const usualTokensPerS = 5
const [width, height] = [640, 96]
/** As the style sheet has them. */
const colours = 8

const isName = (writer: string | undefined) => writer !== undefined

/** A colour for each writer, in the order in which they first wrote. */
export function colourClasses(writers: readonly (string | undefined)[]): (writer: string | undefined) => string {
  const names = [...new Set(writers.filter(isName))]
  return (writer) => (writer === undefined ? '' : `line-${names.indexOf(writer) % colours}`)
}

/** The text of an answer, in the colours of its writers, and under it the lines of the sketch that it does not cover yet. */
export function ShownAnswer({ turn }: Props) {
  const arrivals = arrivalsOf(turn)
  const writers = writersOf(arrivals, turn.report?.sources)
  const classOf = colourClasses(writers)
  const names = [...new Set(writers.filter(isName))]
  return (
    <>
      <p class="answer">
        {arrivals.map(({ text }, at) => (
          <span class={names.length > 1 ? `by ${classOf(writers[at])}` : ''} title={writers[at]} key={at}>
            {text}
          </span>
        ))}
      </p>
      <ol class="sketch" aria-label="Lines of the sketch that are not expanded yet" hidden={turn.uncovered.length === 0}>
        {turn.uncovered.map((line) => (
          <li key={line}>{line}</li>
        ))}
      </ol>
      <ul class="legend" aria-label="Writers" hidden={names.length < 2}>
        {names.map((name) => (
          <li class={classOf(name)} key={name}>
            {name}
          </li>
        ))}
      </ul>
    </>
  )
}

/** How an answer came: its tokens over time, its reader's buffer, and what its report says. */
export const AnswerTrace = ({ turn }: Props) =>
  turn.pieces.length === 0 ? null : (
    <div class="trace">
      <Timeline turn={turn} />
      <Hat turn={turn} />
      <Disco turn={turn} />
      <Pice turn={turn} />
    </div>
  )

/** Each bar is what came at once, in the colour of its writer; the line is what the reader has not read yet. */
function Timeline({ turn }: Props) {
  const { tokensPerS, report, endMs = 0 } = turn
  const arrivals = arrivalsOf(turn)
  const [first, last] = [arrivals[0]!.atMs, arrivals.at(-1)!]
  const untilMs = Math.max(endMs, last.atMs)
  const rate = tokensPerS || usualTokensPerS
  const buffer = bufferOf(arrivals, rate, untilMs)
  const writers = writersOf(arrivals, report?.sources)
  const classOf = colourClasses(writers)
  const mostAtOnce = Math.max(...arrivals.map(({ fresh }) => fresh), 1)
  const mostUnread = Math.max(...buffer.map(({ tokens }) => tokens), 1)
  const x = (ms: number) => (width * ms) / Math.max(untilMs, 1)
  const y = (share: number) => height - 2 - share * (height - 10)
  const text = `${last.tokens} tokens in ${duration(untilMs)}, the first after ${duration(first)}; at most ${mostAtOnce} at once; at ${rate} tokens/s the reader has at most ${Math.round(mostUnread)} unread`
  return (
    <figure class="timeline">
      <svg viewBox={`0 0 ${width} ${height}`} preserveAspectRatio="none" role="img" aria-label={text}>
        <line x1={x(first)} x2={x(first)} y1="0" y2={height} class="first" />
        {arrivals.map(({ atMs, fresh }, at) => {
          const tick = `tick ${classOf(writers[at]) || 'line-0'}`
          return <line x1={x(atMs)} x2={x(atMs)} y1={y(0)} y2={y((0.5 * fresh) / mostAtOnce)} class={tick} key={at} />
        })}
        <polyline points={buffer.map(({ atMs, tokens }) => `${x(atMs)},${y(tokens / mostUnread)}`).join(' ')} class="buffer" />
      </svg>
      <figcaption class="figures">{text}.</figcaption>
    </figure>
  )
}

function Hat({ turn: { report, usage, endMs = 1 } }: Props) {
  if (!report || report.rounds === 0) return null
  const { rounds, drafted, accepted, acceptLength, ahead, bytesUp, bytesDown, wire, rates, drafting } = report
  const parts = timeParts({ report, usage })
  const most = Math.max(...parts.map(({ ms }) => ms), endMs)
  return (
    <>
      <Facts
        of={{
          'HAT rounds': String(rounds),
          'Accept length': acceptLength?.toFixed(2),
          Drafted: `${drafted}, ${accepted} accepted`,
          'Drafted ahead': ahead && `${ahead.drafted}, used in ${ahead.rounds} rounds`,
          Drafter: drafting?.chosen,
          Bytes: `↑ ${bytes(bytesUp)} ↓ ${bytes(bytesDown)} as ${wire}`,
          Link: `↑ ${compact(rates.upBytesPerS)} ↓ ${compact(rates.downBytesPerS)} B/s`,
          'Reused positions': String(report.reusedTokens),
          'Fail-overs': String(report.failovers),
        }}
      />
      <ul class="parts" aria-label="Where the time goes; the parts overlap">
        {parts.map(({ name, ms }) => (
          <li key={name}>
            {name}
            <span class="meter">
              <span style={{ width: `${(100 * ms) / most}%` }} />
            </span>
            <b>{duration(ms)}</b>
          </li>
        ))}
      </ul>
    </>
  )
}

const startOf = (ms: number | null) => (ms === null ? 'where the other fails' : ms === 0 ? 'at once' : `after ${duration(ms)}`)

function Disco({ turn: { report } }: Props) {
  const disco = report?.disco
  if (!disco) return null
  const { winner, startMs, migrations, cost, stalls, stalledMs, exhausted, tokensPerS, ways } = disco
  const sides = (['device', 'server'] as const).filter((side) => startMs[side] !== null || cost[side].tokens > 0)
  return (
    <>
      <Facts
        of={{
          'First token': winner,
          Delivery: tokensPerS === 0 ? 'as it comes' : `${tokensPerS} tokens/s`,
          'Reader waited': `${stalls} times, ${duration(stalledMs)}`,
          'Hand-overs': migrations.map(({ from, to, reason }) => `${from} → ${to} (${reason})`).join(', ') || 'none',
          Budget: exhausted,
        }}
      />
      <Table
        label="Sides of the answer"
        head={['side', 'starts', 'prompt tokens', 'tokens', 'dollars', 'joules']}
        rows={sides.map((side) => [
          side,
          startOf(startMs[side]),
          cost[side].promptTokens,
          cost[side].tokens,
          dollars(cost[side].dollars),
          cost[side].joules?.toPrecision(2) ?? '–',
        ])}
      />
      {ways && (
        <Table
          label="Ways of answering, as they were foreseen"
          head={['way', 'first text', 'complete', 'cost', '']}
          rows={ways.map(({ way, model, firstTextMs, endMs, dollars: foreseen, isChosen, reason }) => [
            <span class={isChosen ? 'chosen' : ''}>{[way, model].filter(Boolean).join(' · ')}</span>,
            duration(firstTextMs),
            duration(endMs),
            dollars(foreseen),
            reason,
          ])}
        />
      )}
    </>
  )
}

function Pice({ turn: { report } }: Props) {
  const pice = report?.pice
  if (!pice) return null
  const seconds = (s: number | null) => duration(s === null ? null : 1_000 * s)
  return (
    <Facts
      of={{
        Planned: [pice.mode, pice.reason].filter(Boolean).join(': '),
        Foreseen:
          pice.foreseenTokens !== null &&
          `${compact(pice.foreseenTokens)} tokens; in full ${seconds(pice.fullS)}, sketched ${seconds(pice.predictedS)}`,
        Sketch: `${pice.sketchLines} lines, ${pice.sketchTokens} tokens`,
        Sentences: `${pice.expandedSentences} by devices, ${pice.completedSentences} by the bridge`,
        Tokens: `${pice.cloudTokens} in the cloud, ${pice.edgeTokens} on devices`,
        Confidence: pice.confidence?.toFixed(2),
      }}
    />
  )
}
