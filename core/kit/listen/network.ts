import { isIPv6 } from 'node:net'
import { isLoopback } from '../base/loopback.ts'

/** An IPv6 client usually has a whole /64, so that counting single addresses would count nothing. */
const groupsPerNetwork = 4
const groups = 8

/** By what clients are counted: an IPv4 address, or the /64 of an IPv6 address; loopback stays as it is. */
export function networkOf(address: string): string {
  const plain = address.replace(/^::ffff:(?=\d+\.)/i, '')
  if (!isIPv6(plain) || isLoopback(plain)) return plain
  const [head = '', tail] = plain.split('%', 1)[0]!.split('::')
  const first = head === '' ? [] : head.split(':')
  const last = tail === undefined || tail === '' ? [] : tail.split(':')
  const zeros = tail === undefined ? 0 : groups - first.length - last.length
  const all = [...first, ...Array.from({ length: zeros }, () => '0'), ...last]
  const network = all.slice(0, groupsPerNetwork).map((group) => Number.parseInt(group, 16).toString(16))
  return `${network.join(':')}::/64`
}
