import { useEffect, useRef, useState } from 'preact/hooks'
import uPlot from 'uplot'
import { type ChartData, type ChartedSample, chartsOf } from './telemetry-series.ts'

/** Colours of lines, as CSS has them. */
const colours = 8
const heightPx = 132

/** A colour of the style sheet as a canvas needs it. */
function colour(name: string): string {
  const probe = document.createElement('span')
  probe.style.color = `var(--${name})`
  document.body.append(probe)
  const { color } = getComputedStyle(probe)
  probe.remove()
  return color
}

const figure = (value: number | null | undefined): string =>
  value == null ? '–' : Math.abs(value) >= 100 ? value.toFixed(0) : value.toFixed(Math.abs(value) >= 10 ? 1 : 2)

/** Lines over time; the figures under the pointer, else the latest, stand as text beside their names. */
export function Chart({ title, unit, times, lines }: ChartData) {
  const host = useRef<HTMLDivElement>(null)
  const plot = useRef<uPlot | undefined>(undefined)
  const [at, setAt] = useState<number>()
  const labels = lines.map(({ label }) => label).join('\n')
  const data = [times, ...lines.map(({ values }) => values)] as unknown as uPlot.AlignedData
  useEffect(() => {
    const element = host.current!
    const dark = matchMedia('(prefers-color-scheme: dark)')
    const draw = () => {
      plot.current?.destroy()
      plot.current = new uPlot(optionsOf(labels.split('\n'), unit, element.clientWidth, setAt), data, element)
    }
    draw()
    const observer = new ResizeObserver(() => plot.current?.setSize({ width: element.clientWidth, height: heightPx }))
    observer.observe(element)
    dark.addEventListener('change', draw)
    return () => {
      dark.removeEventListener('change', draw)
      observer.disconnect()
      plot.current?.destroy()
      plot.current = undefined
    }
  }, [labels])
  useEffect(() => plot.current?.setData(data), [times, lines])
  const shown = at ?? times.length - 1
  return (
    <figure class="chart">
      <figcaption>
        <strong>{title}</strong> <span class="dim">{unit}</span>
        <ul class="legend">
          {lines.map(({ label, values }, line) => (
            <li key={label} class={`line-${line % colours}`}>
              {label} <b>{figure(values[shown])}</b>
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

function optionsOf(
  labels: readonly string[],
  unit: string,
  width: number,
  onPoint: (at: number | undefined) => void,
): uPlot.Options {
  const [text, rule] = [colour('dim'), colour('line')]
  const axis = {
    stroke: text,
    font: '11px system-ui',
    grid: { stroke: rule, width: 1 },
    ticks: { stroke: rule, width: 1, size: 4 },
  }
  return {
    width,
    height: heightPx,
    legend: { show: false },
    cursor: { sync: { key: 'brim' }, drag: { x: false, y: false }, points: { size: 5 } },
    scales: { y: { range: (_, min, max) => rangeOf(unit === '°C' ? min - 1 : Math.min(0, min), max) } },
    axes: [
      {
        ...axis,
        size: 22,
        values: (_, ticks) =>
          ticks.map((tick) =>
            new Date(tick * 1_000).toLocaleTimeString([], { hour: '2-digit', minute: '2-digit', hour12: false }),
          ),
      },
      { ...axis, size: 38 },
    ],
    series: [
      {},
      ...labels.map((label, line) => ({
        label,
        stroke: colour(`series-${line % colours}`),
        width: 1.5,
        points: { show: false },
      })),
    ],
    hooks: { setCursor: [({ cursor: { idx } }) => onPoint(idx ?? undefined)] },
  }
}

/** With room above the highest point, also where there is nothing but zeros. */
const rangeOf = (min: number, max: number): [number, number] => [min, max > min ? max + (max - min) * 0.08 : min + 1]
