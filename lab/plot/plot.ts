/** Figures as SVG text: panels of lines or bars with one legend. */

export interface Series {
  readonly name: string
  /** [x, y], ascending x. Series of one name have one colour. */
  readonly points: readonly (readonly [number, number])[]
}

export interface LinePanel {
  readonly kind: 'lines'
  readonly title: string
  readonly xLabel: string
  readonly yLabel: string
  readonly series: readonly Series[]
  /** Lines of so many points that none is marked, and the axis has round numbers. */
  readonly isDense?: boolean
}

export interface BarPanel {
  readonly kind: 'bars'
  readonly title: string
  readonly yLabel: string
  /** Minimum end of the axis; the same value makes panels comparable. */
  readonly yMax?: number
  readonly groups: readonly {
    readonly label: string
    readonly bars: readonly { readonly name: string; readonly value: number }[]
  }[]
}

export interface Figure {
  readonly title: string
  readonly subtitle: string
  readonly columns: number
  readonly panels: readonly (LinePanel | BarPanel)[]
}

/** The palette of Okabe and Ito, which readers with any colour vision can distinguish. */
const colours = ['#0072b2', '#d55e00', '#009e73', '#cc79a7', '#e69f00', '#56b4e9']
const ink = { text: '#1f2933', muted: '#66727f', grid: '#e4e8ec', axis: '#9aa5b1' }

const panelSize = { width: 340, height: 250 }
const margin = { top: 44, right: 20, bottom: 44, left: 58 }
const headHeight = 86
const plotWidth = panelSize.width - margin.left - margin.right
const plotHeight = panelSize.height - margin.top - margin.bottom
/** Of a character of the font, about. */
const charWidth = 6
const lineHeight = 12

/** The figure as an SVG document, without panels that have nothing to show. A name has the same colour in every panel. */
export function renderFigure({ title, subtitle, columns, panels: all }: Figure): string {
  const panels = all.filter((panel) => (panel.kind === 'lines' ? panel.series : panel.groups).length > 0)
  const names = [...new Set(panels.flatMap(namesOf))]
  const colour = (name: string) => colours[names.indexOf(name) % colours.length] ?? ink.text
  const width = columns * panelSize.width + 32
  const height = headHeight + Math.ceil(panels.length / columns) * panelSize.height + 16
  const body = panels.map((panel, i) => {
    const x = 16 + (i % columns) * panelSize.width + margin.left
    const y = headHeight + Math.floor(i / columns) * panelSize.height + margin.top
    const inner = panel.kind === 'lines' ? renderLines(panel, colour) : renderBars(panel, colour)
    return `<g transform="translate(${x} ${y})">${heading(panel)}${inner}</g>`
  })
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="system-ui, -apple-system, 'Segoe UI', sans-serif" font-size="11" fill="${ink.text}">`,
    `<rect width="100%" height="100%" fill="#fff"/>`,
    text(28, 34, title, 'font-size="18" font-weight="600"'),
    text(28, 53, subtitle, `fill="${ink.muted}"`),
    renderLegend(names, colour),
    ...body,
    '</svg>\n',
  ].join('\n')
}

/** About five round numbers from 0 to at least `max`. */
export function ticks(max: number): number[] {
  const rough = Math.max(max, Number.MIN_VALUE) / 5
  const magnitude = 10 ** Math.floor(Math.log10(rough))
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * magnitude).find((size) => size >= rough) ?? rough
  const last = Math.ceil(max / step - 1e-9)
  return Array.from({ length: last + 1 }, (_, i) => Number((i * step).toPrecision(6)))
}

function renderLines({ series, xLabel, isDense = false }: LinePanel, colour: (name: string) => string): string {
  const points = series.flatMap((line) => line.points)
  const present = [...new Set(points.map(([x]) => x))].sort((a, b) => a - b)
  const xs = isDense ? ticks(present.at(-1) ?? 1) : present
  const yTicks = ticks(largest(points.map(([, y]) => y)))
  const xMax = (xs.at(-1) ?? 1) * 1.04
  const toX = (x: number) => (x / xMax) * plotWidth
  const toY = scale(yTicks)
  const labels = xs.map((x) => ({ at: toX(x), content: format(x) }))
  const marks = spaced(labels).map(({ at, content }) =>
    text(at, plotHeight + 16, content, `text-anchor="middle" fill="${ink.muted}"`),
  )
  const lines = series.map(({ name, points: line }) => {
    const path = line.map(([x, y], i) => `${i === 0 ? 'M' : 'L'}${round(toX(x))} ${round(toY(y))}`).join('')
    const dots = (isDense ? [] : line).map(([x, y]) => `<circle cx="${round(toX(x))}" cy="${round(toY(y))}" r="3"/>`).join('')
    return `<g fill="${colour(name)}"><path d="${path}" fill="none" stroke="${colour(name)}" stroke-width="${isDense ? 1.2 : 2}" stroke-linejoin="round"/>${dots}</g>`
  })
  return [
    grid(yTicks),
    ...marks,
    text(plotWidth / 2, plotHeight + 34, xLabel, `text-anchor="middle" fill="${ink.muted}"`),
    ...lines,
  ].join('')
}

function renderBars({ groups, yMax = 0 }: BarPanel, colour: (name: string) => string): string {
  const values = groups.flatMap(({ bars }) => bars.map(({ value }) => value))
  const slot = plotWidth / groups.length
  const widthOf = (bars: readonly unknown[]) => Math.min(46, (slot * 0.72) / bars.length)
  const isUpright = groups.some(({ bars }) => bars.some(({ value }) => textWidth(format(value)) > widthOf(bars)))
  const yTicks = ticks(Math.max(yMax, ...values) * (isUpright ? 1.2 : 1.08))
  const toY = scale(yTicks)
  const body = groups.flatMap(({ label, bars }, group) => {
    const width = widthOf(bars)
    const from = group * slot + (slot - width * bars.length) / 2
    const columns = bars.flatMap(({ name, value }, i) => {
      const [x, y] = [from + i * width, toY(value)]
      return [
        `<rect x="${round(x + 1)}" y="${round(y)}" width="${round(width - 2)}" height="${round(plotHeight - y)}" rx="2" fill="${colour(name)}"/>`,
        valueLabel(x + width / 2, y - 5, format(value), isUpright),
      ]
    })
    const lines = wrapped(label, slot).map((line, i) =>
      text(group * slot + slot / 2, plotHeight + 16 + i * lineHeight, line, `text-anchor="middle" fill="${ink.muted}"`),
    )
    return [...columns, ...lines]
  })
  return [grid(yTicks), ...body].join('')
}

const textWidth = (content: string): number => charWidth * content.length

/** A value above its bar; upright where bars are narrower than values. */
function valueLabel(x: number, y: number, content: string, isUpright: boolean): string {
  if (!isUpright) return text(x, y, content, 'text-anchor="middle"')
  return text(x + 4, y, content, `transform="rotate(-90 ${round(x + 4)} ${round(y)})"`)
}

/** Words in lines of at most `width` where words allow it. */
function wrapped(label: string, width: number): string[] {
  const lines: string[] = []
  for (const word of label.split(' ')) {
    const longer = lines.length > 0 ? `${lines.at(-1)} ${word}` : word
    if (lines.length > 0 && textWidth(longer) <= width) lines[lines.length - 1] = longer
    else lines.push(word)
  }
  return lines
}

/** The labels of an axis without those that would touch the one before. */
function spaced(labels: readonly { readonly at: number; readonly content: string }[]) {
  let end = Number.NEGATIVE_INFINITY
  return labels.filter(({ at, content }) => {
    const half = textWidth(content) / 2
    if (at - half < end) return false
    end = at + half + charWidth / 2
    return true
  })
}

function heading({ title, yLabel }: LinePanel | BarPanel): string {
  return text(-34, -24, title, 'font-size="13" font-weight="600"') + text(-34, -10, yLabel, `fill="${ink.muted}"`)
}

function grid(yTicks: readonly number[]): string {
  const toY = scale(yTicks)
  return yTicks
    .map((tick) => {
      const y = round(toY(tick))
      const line = `<line x1="0" x2="${plotWidth}" y1="${y}" y2="${y}" stroke="${tick === 0 ? ink.axis : ink.grid}"/>`
      return line + text(-8, toY(tick) + 4, format(tick), `text-anchor="end" fill="${ink.muted}"`)
    })
    .join('')
}

function renderLegend(names: readonly string[], colour: (name: string) => string): string {
  let x = 28
  const entries = names.map((name) => {
    const entry = `<rect x="${x}" y="66" width="12" height="12" rx="2" fill="${colour(name)}"/>${text(x + 18, 76, name, '')}`
    x += 18 + 6 * name.length + 18
    return entry
  })
  return entries.join('')
}

/** Of more values than a call may have arguments; at least 0. */
const largest = (values: readonly number[]): number => values.reduce((most, value) => Math.max(most, value), 0)

const scale =
  (yTicks: readonly number[]) =>
  (y: number): number =>
    plotHeight * (1 - y / (yTicks.at(-1) || 1))

function namesOf(panel: LinePanel | BarPanel): string[] {
  return panel.kind === 'lines'
    ? panel.series.map(({ name }) => name)
    : panel.groups.flatMap(({ bars }) => bars.map(({ name }) => name))
}

function text(x: number, y: number, content: string, attributes: string): string {
  const safe = content.replace(/&/g, '&amp;').replace(/</g, '&lt;').replace(/>/g, '&gt;')
  return `<text x="${round(x)}" y="${round(y)}" ${attributes}>${safe}</text>`
}

/** Three significant digits; groups of thousands separated by a thin space. */
function format(value: number): string {
  const rounded = Math.abs(value) >= 100 ? Math.round(value) : Number(value.toPrecision(3))
  return String(rounded).replace(/\B(?=(\d{3})+(?!\d))(?<!\.\d*)/g, '\u2009')
}

const round = (value: number) => Math.round(value * 10) / 10
