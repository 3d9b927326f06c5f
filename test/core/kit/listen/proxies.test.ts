import type { IncomingHttpHeaders } from 'node:http'
import type { Socket } from 'node:net'
import { expect, it } from 'vitest'
import { isAddressOrNetwork, Proxies } from '../../../../core/kit/listen/proxies.ts'

const proxies = new Proxies(['127.0.0.1', '10.0.0.0/8', '2001:db8::1'])
const clientOf = (remoteAddress: string, forwarded?: string) => {
  const headers: IncomingHttpHeaders = forwarded === undefined ? {} : { 'x-forwarded-for': forwarded }
  return proxies.clientOf({ socket: { remoteAddress } as Socket, headers })
}

it.each([
  ['127.0.0.1', '192.0.2.7', '192.0.2.7'],
  ['::ffff:127.0.0.1', '192.0.2.7', '192.0.2.7'],
  ['2001:db8::1', '[2001:db8:2::7]:4711', '2001:db8:2::7'],
  ['127.0.0.1', '192.0.2.7:4711', '192.0.2.7'],
])('of a proxy at %s, the client is the one that it names: %s', (peer, forwarded, client) => {
  expect(clientOf(peer, forwarded)).toBe(client)
})

it('takes the last address that is no proxy: a client may have invented those before it', () => {
  expect(clientOf('127.0.0.1', '198.51.100.1, 192.0.2.7, 10.1.2.3')).toBe('192.0.2.7')
  expect(clientOf('127.0.0.1', '10.0.0.9,10.1.2.3')).toBe('10.0.0.9')
})

it('ignores the header of others, and what is no address', () => {
  expect(clientOf('192.0.2.9', '127.0.0.1')).toBe('192.0.2.9')
  expect(clientOf('127.0.0.1')).toBe('127.0.0.1')
  expect(clientOf('127.0.0.1', 'unknown')).toBe('127.0.0.1')
  expect(clientOf('127.0.0.1', '192.0.2.7, evil, 10.0.0.1')).toBe('10.0.0.1')
})

it('a proxy is an address or a network', () => {
  expect(['10.0.0.1', '10.0.0.0/8', '::1', '2001:db8::/32'].filter((text) => !isAddressOrNetwork(text))).toEqual([])
  expect(['', 'proxy', '10.0.0.0/33', '10.0.0.0/', '10.0.0.0/8/8', '::/129'].filter(isAddressOrNetwork)).toEqual([])
})
