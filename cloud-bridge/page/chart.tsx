import { useEffect, useRef, useState } from 'preact/hooks'
import uPlot from 'uplot'
import { compact } from '../commands/figures.ts'
import { type ChartData, type ChartedSample, chartsOf } from './telemetry-series.ts'

/** As the style sheet has them. */
const colours = 8
const heightPx = 132

const figure = (value: number | null | undefined): string =>
  value == null ? '–' : value.toFixed(Number.isInteger(value) || Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2)

const clock = new Intl.DateTimeFormat([], { hour: '2-digit', minute: '2-digit', hour12: false })

/** Lines over time; the figures under the pointer, else the latest, stand as text beside their names. */
export function Chart({ title, unit, times, lines }: ChartData) {
  const host = useRef<HTMLDivElement>(null)
  const plot = useRef<uPlot>(undefined)
  const [at, setAt] = useState<number>()
  const labels = lines.map(({ label }) => label).join('\n')
  const data = [times, ...lines.map(({ values }) => values)] as unknown as uPlot.AlignedData
  useEffect(() => {
    const element = host.current!
    const dark = matchMedia('(prefers-color-scheme: dark)')
    const draw = () => {
      plot.current?.destroy()
      plot.current = new uPlot(optionsOf(lines.length, unit, element.clientWidth, setAt), data, element)
    }
    draw()
    const observer = new ResizeObserver(() => plot.current?.setSize({ width: element.clientWidth, height: heightPx }))
    observer.observe(element)
    dark.addEventListener('change', draw)
    return () => {
      dark.removeEventListener('change', draw)
      observer.disconnect()
      plot.current?.destroy()
    }
  }, [labels])
  useEffect(() => plot.current?.setData(data), [times, lines])
  return (
    <figure class="chart">
      <figcaption>
        <strong>{title}</strong> <span class="dim">{unit}</span>
        <ul class="legend">
          {lines.map(({ label, values }, line) => (
            <li key={label} class={`line-${line % colours}`}>
              {label} <b>{figure(values[at ?? times.length - 1])}</b>
            </li>
          ))}
        </ul>
      </figcaption>
      <div ref={host} aria-hidden="true" />
    </figure>
  )
}

/** What is known of a device over time. @param samples in the order of their times */
export const HistoryCharts = ({ samples }: { readonly samples: readonly ChartedSample[] }) => (
  <div class="charts">
    {chartsOf(samples).map((chart) => (
      <Chart {...chart} key={chart.title} />
    ))}
  </div>
)

function optionsOf(lines: number, unit: string, width: number, onPoint: (at: number | undefined) => void): uPlot.Options {
  const [text, rule] = [colour('dim'), colour('line')]
  const grid = { stroke: rule, width: 1 }
  const axis = { stroke: text, font: '11px system-ui', grid, ticks: { ...grid, size: 4 } }
  return {
    width,
    height: heightPx,
    padding: [6, 8, 0, 0],
    legend: { show: false },
    cursor: { sync: { key: 'brim' }, drag: { x: false, y: false }, points: { size: 5 } },
    // Temperatures differ little, and zero means nothing to them. There is room above zeros, too.
    scales: { y: { range: (_, min, max) => [unit === '°C' ? min - 1 : Math.min(0, min), max > 0 ? max * 1.08 : max + 1] } },
    axes: [
      { ...axis, size: 22, values: (_, ticks) => ticks.map((tick) => clock.format(tick * 1_000)) },
      { ...axis, size: 34, values: (_, ticks) => ticks.map(compact) },
    ],
    series: [
      {},
      ...Array.from({ length: lines }, (_, line) => ({
        stroke: colour(`series-${line % colours}`),
        width: 1.5,
        points: { show: false },
      })),
    ],
    hooks: { setCursor: [({ cursor: { idx } }) => onPoint(idx ?? undefined)] },
  }
}

/** A colour of the style sheet as a canvas needs it. */
function colour(name: string): string {
  const probe = document.createElement('span')
  probe.style.color = `var(--${name})`
  document.body.append(probe)
  const { color } = getComputedStyle(probe)
  probe.remove()
  return color
}
