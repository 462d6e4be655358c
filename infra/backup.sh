# Writes each day: Prefect's database, and of the store what cannot be built again: editions, recipes, replies of models,
# runs handed in. A name that ends with .part is not finished. Run by the service `backup` of compose.yaml.
umask 077
cd "${BACKUP_TO:-/backup}"
store=${BACKUP_STORE:-/data/store}
while true; do
  day=$(date -u +%F)
  pg_dump --format=custom --file="prefect-$day.part"
  mv "prefect-$day.part" "prefect-$day.dump"
  kept=$(cd "$store" && ls -d editions recipes llm submissions 2>/dev/null || true)
  if [ -n "$kept" ]; then
    # shellcheck disable=SC2086 # a list of names without blanks
    tar --create --gzip --file="store-$day.part" --directory="$store" $kept
    mv "store-$day.part" "store-$day.tar.gz"
  fi
  find . -maxdepth 1 -name '*-????-??-??.*' -mtime "+${KEEP_DAYS:-14}" -delete
  date +%s > .last
  [ "${BACKUP_EVERY:-86400}" = once ] && exit 0
  sleep "${BACKUP_EVERY:-86400}"
done
