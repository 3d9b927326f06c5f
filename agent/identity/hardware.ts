import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

/**
 * An identifier of this machine that a copy of its disk does not have: the board's serial number, else the smallest MAC
 * address of a hardware interface. /etc/machine-id will not do: it is copied with the disk.
 * @param root folder used as /
 * @returns source and value, or undefined if none is readable
 */
export function hardwareOf(root = '/'): string | undefined {
  const serials: [string, string][] = [
    ['device-tree', 'proc/device-tree/serial-number'],
    ['dmi', 'sys/class/dmi/id/product_uuid'],
  ]
  for (const [source, path] of serials) {
    const value = contentOf(join(root, path))
    if (value) return `${source} ${value}`
  }
  const net = join(root, 'sys/class/net')
  const real = namesIn(net).filter((name) => namesIn(join(net, name)).includes('device'))
  const [address] = real
    .map((name) => contentOf(join(net, name, 'address')))
    .filter(Boolean)
    .sort()
  return address ? `mac ${address}` : undefined
}

/** Printable characters only: strings of a device tree end with NUL. */
function contentOf(path: string): string | undefined {
  try {
    return readFileSync(path, 'latin1')
      .replace(/[^\x21-\x7e]/g, '')
      .slice(0, 80)
  } catch {
    return undefined
  }
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder)
  } catch {
    return []
  }
}
