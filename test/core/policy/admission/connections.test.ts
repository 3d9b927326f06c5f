import { describe, expect, it } from 'vitest'
import { ConnectionTable } from '../../../../core/policy/admission/connections.ts'

const table = (caps: Partial<{ total: number; perNetwork: number; waiting: number }>) =>
  new ConnectionTable<string>({ total: 100, perNetwork: 100, waiting: 100, ...caps }, (network) => network !== 'local')

describe('a table of connections', () => {
  it('admits up to the total, then replaces the one that has waited longest', () => {
    const connections = table({ total: 2 })
    expect(connections.admit('a', 'n')).toEqual({ replaces: undefined })
    connections.admit('b', 'n')
    expect(connections.admit('c', 'n')).toEqual({ replaces: 'a' })
    expect(connections.size).toBe(2)
  })

  it('never replaces a connection whose request is under way', () => {
    const connections = table({ total: 2 })
    connections.admit('a', 'n')
    connections.admit('b', 'n')
    connections.beginRequest('a')
    connections.beginRequest('b')
    expect(connections.admit('c', 'n')).toEqual({ refusedBy: 'total' })
    connections.endRequest('b')
    expect(connections.admit('c', 'n')).toEqual({ replaces: 'b' })
  })

  it('caps each network by itself, except those that are not capped', () => {
    const connections = table({ perNetwork: 1 })
    connections.admit('a', 'n')
    connections.beginRequest('a')
    expect(connections.admit('b', 'n')).toEqual({ refusedBy: 'perNetwork' })
    expect(connections.admit('c', 'm')).toEqual({ replaces: undefined })
    connections.admit('d', 'local')
    connections.beginRequest('d')
    expect(connections.admit('e', 'local')).toEqual({ replaces: undefined })
  })

  it('counts a connection through a proxy as one of its client, up to the cap', () => {
    const connections = table({ perNetwork: 1 })
    for (const name of ['a', 'b', 'c']) connections.admit(name, 'local')
    expect(connections.assign('a', 'n')).toBe(true)
    expect(connections.assign('a', 'n')).toBe(true)
    expect(connections.assign('b', 'n')).toBe(false)
    expect(connections.assign('b', 'm')).toBe(true)
    expect(connections.assign('gone', 'm')).toBe(false)
    expect(connections.admit('d', 'n')).toEqual({ replaces: 'a' })
    expect(connections.size).toBe(3)
  })

  it('makes room for others at the expense of the network that waits with most', () => {
    const connections = table({ waiting: 3 })
    connections.admit('honest', 'n')
    connections.admit('flood 1', 'm')
    connections.admit('flood 2', 'm')
    expect(connections.admit('flood 3', 'm')).toEqual({ replaces: 'flood 1' })
    expect(connections.admit('new', 'o')).toEqual({ replaces: 'flood 2' })
  })

  it('forgets what has closed, and ignores what it does not hold', () => {
    const connections = table({ total: 1, waiting: 1 })
    connections.admit('a', 'n')
    connections.remove('a')
    connections.remove('a')
    connections.beginRequest('a')
    connections.endRequest('a')
    expect(connections.size).toBe(0)
    expect(connections.admit('b', 'n')).toEqual({ replaces: undefined })
  })
})
