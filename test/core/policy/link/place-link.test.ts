import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { linkLoad, linksToMove, type NodeLoad, placeLink } from '../../../../core/policy/link/place-link.ts'

const node = (name: string, links: number, sessions = 0, isDraining = false): NodeLoad => ({
  node: name,
  links,
  sessions,
  isDraining,
})
const loads = fc
  .array(fc.record({ links: fc.nat(200), busy: fc.double({ min: 0, max: 1, noNaN: true }), isDraining: fc.boolean() }), {
    minLength: 1,
    maxLength: 6,
  })
  .map((all) => all.map(({ links, busy, isDraining }, at) => node(`n${at}`, links, Math.floor(busy * links), isDraining)))

describe('placeLink', () => {
  it('serves a link where it arrives, unless another process has clearly less to do', () => {
    expect(placeLink('a', [node('a', 1), node('b', 0)])).toBe('b')
    expect(placeLink('a', [node('a', 1), node('b', 1)])).toBe('a')
    expect(placeLink('a', [node('a', 105), node('b', 100)])).toBe('a')
    expect(placeLink('a', [node('a', 10, 10), node('b', 15)])).toBe('b')
    expect(placeLink('a', [node('a', 9), node('b', 0, 0, true)])).toBe('a')
    expect(placeLink('a', [node('a', 0, 0, true), node('b', 9)])).toBe('b')
    expect(placeLink('a', [])).toBe('a')
  })

  it('never names a process that drains while another does not, and none with more to do', () => {
    fc.assert(
      fc.property(loads, (nodes) => {
        const placed = nodes.find(({ node: name }) => name === placeLink('n0', nodes))!
        const open = nodes.filter(({ isDraining }) => !isDraining)
        if (open.length > 0) expect(placed.isDraining).toBe(false)
        if (placed.node !== 'n0' && open.includes(nodes[0]!)) expect(linkLoad(placed)).toBeLessThan(linkLoad(nodes[0]!))
      }),
    )
  })
})

describe('linksToMove', () => {
  it('is all of a process that drains, and none where there is no other', () => {
    expect(linksToMove('a', [node('a', 7, 2, true), node('b', 0)])).toBe(7)
    expect(linksToMove('a', [node('a', 7, 2, true), node('b', 0, 0, true)])).toBe(0)
    expect(linksToMove('a', [node('a', 7)])).toBe(0)
  })

  it('divides the links of a fleet, in a bounded number of rounds, and leaves them where they are then', () => {
    fc.assert(
      fc.property(fc.array(fc.nat(300), { minLength: 2, maxLength: 5 }), (links) => {
        let nodes = links.map((count, at) => node(`n${at}`, count))
        let isStill = false
        for (let round = 0; round < 200 && !isStill; round++) {
          isStill = true
          for (const { node: own } of nodes)
            for (let moved = linksToMove(own, nodes); moved > 0; moved--) {
              isStill = false
              nodes = nodes.map((each) => (each.node === own ? { ...each, links: each.links - 1 } : each))
              const to = placeLink(own, nodes)
              nodes = nodes.map((each) => (each.node === to ? { ...each, links: each.links + 1 } : each))
            }
        }
        expect(isStill).toBe(true)
        const share = Math.ceil(links.reduce((sum, count) => sum + count, 0) / links.length)
        for (const { links: count } of nodes) expect(count).toBeLessThanOrEqual(share + Math.floor(share / 8))
      }),
    )
  })
})
