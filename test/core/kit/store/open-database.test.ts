import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { BrimError } from '../../../../core/kit/base/errors.ts'
import { birthsTable, nextBirth } from '../../../../core/kit/store/births.ts'
import { openDatabase } from '../../../../core/kit/store/open-database.ts'
import { tempDir } from '../../../support/temp-dir.ts'

const first = ['CREATE TABLE notes (text TEXT NOT NULL) STRICT']
const second = [...first, 'ALTER TABLE notes ADD COLUMN at TEXT']

describe('a database', () => {
  it('has WAL, synchronous FULL and foreign keys, also when reopened', () => {
    using dir = tempDir()
    const path = join(dir.path, 'new/folder/brim.sqlite')
    for (let open = 0; open < 2; open++) {
      const store = openDatabase(path, first)
      expect(store.pragma('journal_mode', { simple: true })).toBe('wal')
      expect(store.pragma('synchronous', { simple: true })).toBe(2)
      expect(store.pragma('foreign_keys', { simple: true })).toBe(1)
      store.close()
    }
  })

  it('has synchronous NORMAL if requested', () => {
    using dir = tempDir()
    const store = openDatabase(join(dir.path, 'brim.sqlite'), first, 'NORMAL')
    expect(store.pragma('synchronous', { simple: true })).toBe(1)
    store.close()
  })

  it('runs the migrations that it lacks, and keeps its rows', () => {
    using dir = tempDir()
    const path = join(dir.path, 'brim.sqlite')
    const old = openDatabase(path, first)
    old.exec("INSERT INTO notes VALUES ('kept')")
    old.close()
    const store = openDatabase(path, second)
    expect(store.prepare('SELECT text, at FROM notes').all()).toEqual([{ text: 'kept', at: null }])
    store.close()
  })

  it('is unchanged if a migration fails', () => {
    using dir = tempDir()
    const path = join(dir.path, 'brim.sqlite')
    openDatabase(path, first).close()
    expect(() => openDatabase(path, [...first, 'CREATE TABLE half (a) ; NOT SQL'])).toThrow(
      expect.objectContaining({ code: 'STORE_FAILED' }),
    )
    const store = openDatabase(path, second)
    expect(store.prepare("SELECT name FROM sqlite_master WHERE name = 'half'").all()).toEqual([])
    store.close()
  })

  it('of a newer release is rejected with that reason', () => {
    using dir = tempDir()
    const path = join(dir.path, 'brim.sqlite')
    openDatabase(path, second).close()
    expect(() => openDatabase(path, first)).toThrow(/has version 2; this release supports version 1/)
  })

  it('that is another file is rejected with its path', () => {
    using dir = tempDir()
    const path = join(dir.path, 'brim.sqlite')
    writeFileSync(path, 'not a database at all, '.repeat(100))
    expect(() => openDatabase(path, first)).toThrow(BrimError)
    expect(() => openDatabase(path, first)).toThrow(path)
  })
})

describe('the birth counter', () => {
  it('starts at 1 and counts on after a restart', () => {
    using dir = tempDir()
    const path = join(dir.path, 'brim.sqlite')
    const births = Array.from({ length: 3 }, () => {
      const store = openDatabase(path, [birthsTable])
      const birth = nextBirth(store)
      store.close()
      return birth
    })
    expect(births).toEqual([1, 2, 3])
  })
})
