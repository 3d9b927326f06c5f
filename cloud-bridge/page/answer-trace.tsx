import { bytes, compact } from '../commands/figures.ts'
import type { Turn } from './chat-model.ts'
import { dollars, duration, Facts, Table } from './parts.tsx'
import { type Arrival, arrivalsOf, bufferOf, timeParts, writersOf } from './trace.ts'

/** Where the reader has not said its rate: about that of silent reading. */
const usualTokensPerS = 5
const [width, height] = [640, 96]
const colours = 8

/** A colour for each writer, in the order in which they first wrote. */
export function colourClasses(writers: readonly (string | undefined)[]): (writer: string | undefined) => string {
  const names = [...new Set(writers.filter((name) => name !== undefined))]
  return (writer) => (writer === undefined ? '' : `line-${names.indexOf(writer) % colours}`)
}

/** The text of an answer, in the colours of its writers, and under it the lines of the sketch that it does not cover yet. */
export function ShownAnswer({ turn }: { readonly turn: Turn }) {
  const arrivals = arrivalsOf(turn)
  const writers = writersOf(arrivals, turn.report?.sources)
  const classOf = colourClasses(writers)
  const names = [...new Set(writers.filter((name) => name !== undefined))]
  return (
    <>
      <p class="answer">
        {names.length < 2
          ? arrivals.map(({ text }) => text).join('')
          : arrivals.map(({ text, atMs }, at) => (
              <span class={`by ${classOf(writers[at])}`} title={writers[at]} key={`${atMs} ${at}`}>
                {text}
              </span>
            ))}
        {turn.state === 'asked' && <span class="caret" aria-hidden="true" />}
      </p>
      {turn.uncovered.length > 0 && (
        <ol class="sketch" aria-label="Lines of the sketch that are not expanded yet">
          {turn.uncovered.map((line) => (
            <li key={line}>{line}</li>
          ))}
        </ol>
      )}
      {names.length > 1 && (
        <ul class="legend" aria-label="Writers">
          {names.map((name) => (
            <li class={classOf(name)} key={name}>
              {name}
            </li>
          ))}
        </ul>
      )}
    </>
  )
}

/** How an answer came: its tokens over time, its reader's buffer, and what its report says. */
export function AnswerTrace({ turn }: { readonly turn: Turn }) {
  const arrivals = arrivalsOf(turn)
  if (arrivals.length === 0) return null
  return (
    <div class="trace">
      <Timeline turn={turn} arrivals={arrivals} />
      <Hat turn={turn} />
      <Disco turn={turn} />
      <Pice turn={turn} />
    </div>
  )
}

function Timeline({ turn, arrivals }: { readonly turn: Turn; readonly arrivals: readonly Arrival[] }) {
  const { tokensPerS = usualTokensPerS, report, endMs } = turn
  const untilMs = Math.max(endMs ?? 0, arrivals.at(-1)!.atMs)
  const rate = tokensPerS === 0 ? usualTokensPerS : tokensPerS
  const buffer = bufferOf(arrivals, rate, untilMs)
  const classOf = colourClasses(writersOf(arrivals, report?.sources))
  const writers = writersOf(arrivals, report?.sources)
  const mostAtOnce = Math.max(...arrivals.map(({ fresh }) => fresh), 1)
  const mostUnread = Math.max(...buffer.map(({ tokens }) => tokens), 1)
  const x = (ms: number) => (width * ms) / Math.max(untilMs, 1)
  const y = (share: number) => height - 4 - share * (height - 12)
  const first = arrivals[0]!.atMs
  const text = `${arrivals.at(-1)!.tokens} tokens in ${duration(untilMs)}, the first after ${duration(first)}; at most ${mostAtOnce} at once; at ${rate} tokens/s the reader has at most ${Math.round(mostUnread)} unread`
  return (
    <figure class="timeline">
      <svg viewBox={`0 0 ${width} ${height}`} preserveAspectRatio="none" role="img" aria-label={text}>
        <line x1={x(first)} x2={x(first)} y1="0" y2={height} class="first" />
        {arrivals.map(({ atMs, fresh }, at) => (
          <line
            x1={x(atMs)}
            x2={x(atMs)}
            y1={y(0)}
            y2={y(fresh / mostAtOnce)}
            class={`bar ${classOf(writers[at]) || 'line-0'}`}
            key={`${atMs} ${at}`}
          />
        ))}
        <polyline points={buffer.map(({ atMs, tokens }) => `${x(atMs)},${y(tokens / mostUnread)}`).join(' ')} class="buffer" />
      </svg>
      <figcaption class="dim">{text}.</figcaption>
    </figure>
  )
}

function Hat({ turn }: { readonly turn: Turn }) {
  const { report, usage } = turn
  if (!report || report.rounds === 0) return null
  const { rounds, drafted, accepted, acceptLength, ahead, bytesUp, bytesDown, reusedTokens, failovers, wire, rates, drafting } =
    report
  const parts = timeParts({ report, usage })
  const most = Math.max(...parts.map(({ ms }) => ms), turn.endMs ?? 1)
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
          'Reused positions': String(reusedTokens),
          'Fail-overs': String(failovers),
        }}
      />
      <ul class="parts" aria-label="Where the time goes; the parts overlap">
        {parts.map(({ name, ms }) => (
          <li key={name}>
            <span>{name}</span> <meter min={0} max={most} value={ms} aria-label={name} /> <b>{duration(ms)}</b>
          </li>
        ))}
      </ul>
    </>
  )
}

function Disco({ turn: { report } }: { readonly turn: Turn }) {
  const disco = report?.disco
  if (!disco) return null
  const { winner, startMs, migrations, cost, stalls, stalledMs, exhausted, tokensPerS, ways } = disco
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
        head={['side', 'started', 'prompt tokens', 'tokens', 'dollars', 'joules']}
        rows={(['device', 'server'] as const).map((side) => {
          const { promptTokens, tokens, dollars: cost_, joules } = cost[side]
          return [
            side,
            startMs[side] === null ? 'if the other fails' : `after ${duration(startMs[side])}`,
            promptTokens,
            tokens,
            dollars(cost_),
            joules == null ? '–' : joules.toPrecision(2),
          ]
        })}
      />
      {ways && (
        <Table
          label="Ways of answering, as they were foreseen"
          head={['way', 'first text', 'complete', 'cost', '']}
          rows={ways.map(({ way, model, firstTextMs, endMs, dollars: cost_, isChosen, reason }) => [
            <span class={isChosen ? 'chosen' : ''}>{[way, model].filter(Boolean).join(' · ')}</span>,
            duration(firstTextMs),
            duration(endMs),
            dollars(cost_),
            reason,
          ])}
        />
      )}
    </>
  )
}

function Pice({ turn: { report } }: { readonly turn: Turn }) {
  const pice = report?.pice
  if (!pice) return null
  const seconds = (s: number | null) => duration(s === null ? null : 1_000 * s)
  return (
    <Facts
      of={{
        Planned: [pice.mode, pice.reason].filter(Boolean).join(': '),
        Foreseen: `${compact(pice.foreseenTokens)} tokens; in full ${seconds(pice.fullS)}, sketched ${seconds(pice.predictedS)}`,
        Sketch: `${pice.sketchLines} lines, ${pice.sketchTokens} tokens`,
        Sentences: `${pice.expandedSentences} by devices, ${pice.completedSentences} by the bridge`,
        Tokens: `${pice.cloudTokens} in the cloud, ${pice.edgeTokens} on devices`,
        Confidence: pice.confidence?.toFixed(2),
      }}
    />
  )
}
