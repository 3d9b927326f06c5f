import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { renderFigure, ticks } from '../../../lab/plot/plot.ts'

describe('the ticks of an axis', () => {
  it('are a few round numbers from 0 to at least the largest value', () => {
    fc.assert(
      fc.property(fc.double({ min: 1e-6, max: 1e9, noNaN: true }), (max) => {
        const all = ticks(max)
        expect(all[0]).toBe(0)
        expect(all.at(-1)).toBeGreaterThanOrEqual(max * (1 - 1e-5))
        expect(all.length).toBeGreaterThanOrEqual(2)
        expect(all.length).toBeLessThanOrEqual(7)
      }),
      { examples: [[1], [10], [99.999], [0.3]] },
    )
  })

  it('match hand-picked examples', () => {
    expect(ticks(97)).toEqual([0, 20, 40, 60, 80, 100])
    expect(ticks(0.45)).toEqual([0, 0.1, 0.2, 0.3, 0.4, 0.5])
  })
})

describe('a figure', () => {
  const figure = renderFigure({
    title: 'A < B & C',
    subtitle: 'medians',
    columns: 2,
    panels: [
      {
        kind: 'lines',
        title: 'Decode',
        xLabel: 'context',
        yLabel: 'tokens/s',
        series: [
          {
            name: 'ours',
            points: [
              [128, 200],
              [1024, 150],
            ],
          },
          {
            name: 'stock',
            points: [
              [128, 180],
              [1024, 60],
            ],
          },
        ],
      },
      { kind: 'bars', title: 'Packed', yLabel: 'tokens/s', groups: [{ label: 'int4', bars: [{ name: 'ours', value: 12_345 }] }] },
      { kind: 'lines', title: 'Nothing measured', xLabel: 'x', yLabel: 'y', series: [] },
    ],
  })

  it('is one SVG document without undefined values', () => {
    expect(figure.startsWith('<svg ')).toBe(true)
    expect(figure.trim().endsWith('</svg>')).toBe(true)
    expect(figure).not.toMatch(/NaN|undefined|Infinity/)
    expect(figure.match(/<g /g)?.length).toBe(figure.match(/<\/g>/g)?.length)
  })

  it('escapes text and groups digits', () => {
    expect(figure).toContain('A &lt; B &amp; C')
    expect(figure).toContain('12\u2009345')
  })

  it('gives each name one colour and one entry in the legend', () => {
    expect(figure.match(/>ours<\/text>/g)).toHaveLength(1)
    expect(figure.match(/fill="#0072b2"/g)?.length).toBe(3)
  })

  it('draws larger values higher', () => {
    const heights = [...figure.matchAll(/<circle cx="[\d.]+" cy="([\d.]+)"/g)].map(([, y]) => Number(y))
    expect(heights).toHaveLength(4)
    expect(heights[0]).toBeLessThan(heights[1]!)
    expect(heights[1]).toBeLessThan(heights[3]!)
  })
})

describe('bar panels with a common yMax', () => {
  it('have the same scale', () => {
    const panel = (value: number) =>
      ({ kind: 'bars', title: 't', yLabel: 'y', yMax: 4, groups: [{ label: 'g', bars: [{ name: 'ours', value }] }] }) as const
    const figure = renderFigure({ title: 't', subtitle: 's', columns: 2, panels: [panel(4), panel(2)] })
    const heights = [...figure.matchAll(/<rect x="[\d.]+" y="[\d.]+" width="44" height="([\d.]+)"/g)].map(([, height]) =>
      Number(height),
    )
    expect(heights).toHaveLength(2)
    expect(heights[0]! / heights[1]!).toBeCloseTo(2, 1)
  })
})

describe('labels', () => {
  const bars = (count: number, label = 'group') => ({
    label,
    bars: Array.from({ length: count }, (_, i) => ({ name: `n${i}`, value: 1_000 + i })),
  })
  const render = (groups: ReturnType<typeof bars>[]) =>
    renderFigure({ title: 't', subtitle: 's', columns: 1, panels: [{ kind: 'bars', title: 't', yLabel: 'y', groups }] })

  it('of values stand upright above bars that are narrower than they are', () => {
    expect(render([bars(2)])).not.toContain('rotate')
    expect(render([bars(6), bars(6)]).match(/rotate\(-90/g)).toHaveLength(12)
  })

  it('of groups are broken into lines between words', () => {
    const figure = render(['routing by length', 'PICE'].map((label) => bars(1, label)).flatMap((group) => [group, group]))
    expect(figure).not.toContain('>routing by length<')
    expect(figure).toContain('>routing by<')
    expect(figure).toContain('>PICE<')
  })

  it('of an axis leave out those that would touch the one before', () => {
    const points = [1, 1.01, 10].map((x) => [x, 1] as const)
    const series = [{ name: 'ours', points }]
    const panel = { kind: 'lines', title: 't', xLabel: 'x', yLabel: 'y', series } as const
    const figure = renderFigure({ title: 't', subtitle: 's', columns: 1, panels: [panel] })
    expect(figure).toContain('>1</text>')
    expect(figure).toContain('>10</text>')
    expect(figure).not.toContain('>1.01</text>')
  })
})
