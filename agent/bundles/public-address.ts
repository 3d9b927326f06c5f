import { BlockList, isIPv4 } from 'node:net'

/** RFC 6890 and its registries: this machine, private networks, link-local (cloud metadata), shared, test, multicast. */
const notPublic = new BlockList()
for (const network of [
  ...[
    '0.0.0.0/8',
    '10.0.0.0/8',
    '100.64.0.0/10',
    '127.0.0.0/8',
    '169.254.0.0/16',
    '172.16.0.0/12',
    '192.0.0.0/24',
    '192.0.2.0/24',
  ],
  ...['192.168.0.0/16', '198.18.0.0/15', '198.51.100.0/24', '203.0.113.0/24', '224.0.0.0/3'],
]) {
  const [address = '', bits] = network.split('/')
  notPublic.addSubnet(address, Number(bits), 'ipv4')
}
/** Within the one global range of IPv6, those that hold an IPv4 address (Teredo, 6to4) or are for documentation. */
const globalV6 = new BlockList()
globalV6.addSubnet('2000::', 3, 'ipv6')
for (const [address, bits] of [
  ['2001::', 23],
  ['2001:db8::', 32],
  ['2002::', 16],
] as const)
  notPublic.addSubnet(address, bits, 'ipv6')

export function isPublicAddress(ip: string): boolean {
  if (isIPv4(ip)) return !notPublic.check(ip, 'ipv4')
  return globalV6.check(ip, 'ipv6') && !notPublic.check(ip, 'ipv6')
}
